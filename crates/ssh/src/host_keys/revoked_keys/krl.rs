//! Parses OpenSSH key revocation lists (`ssh-keygen -k`), as specified in `PROTOCOL.krl`.
//!
//! ```text
//! "SSHKRL\n\0"  u32 format = 1  u64 version  u64 created  u64 flags  string  string comment
//! then sections: u8 kind, string content
//! ```

use std::collections::BTreeSet;

use russh::keys::Certificate;
use russh::keys::PublicKey;

use crate::host_keys::revoked_keys::KeyDigests;

const MAGIC: &[u8] = b"SSHKRL\n\0";
const FORMAT: u32 = 1;

const TRUNCATED: &str = "it is truncated";
const UNKNOWN_SECTION: &str = "it has an unknown section";

/// Most bits of a bitmap of serial numbers; a list with more is invalid.
const MAX_BITMAP_BITS: usize = 8 * 1024 * 1024;

/// A parsed list.
#[derive(Debug, Default)]
pub(crate) struct Krl {
    blobs: BTreeSet<Vec<u8>>,
    sha1s: BTreeSet<[u8; 20]>,
    sha256s: BTreeSet<[u8; 32]>,
    authorities: Vec<AuthoritySection>,
}

/// The revoked certificates of one authority.
#[derive(Debug)]
struct AuthoritySection {
    /// The key of the authority; empty for any.
    authority: Vec<u8>,
    /// Inclusive ranges.
    serials: Vec<(u64, u64)>,
    identities: BTreeSet<Vec<u8>>,
}

impl Krl {
    /// Parses a list; `None` without the magic bytes, an error if it is invalid.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Result<Self, &'static str>> {
        Some(Self::read(KrlReader(bytes.strip_prefix(MAGIC)?)))
    }

    fn read(mut rest: KrlReader<'_>) -> Result<Self, &'static str> {
        let mut krl = Self::default();
        if rest.u32()? != FORMAT {
            return Err("its format is unknown");
        }
        // Skips version, time, flags, a reserved string and a comment.
        for _ in 0..3 {
            rest.u64()?;
        }
        for _ in 0..2 {
            rest.string()?;
        }
        while !rest.is_empty() {
            let (kind, mut section) = (rest.u8()?, KrlReader(rest.string()?));
            if kind == 1 {
                krl.authorities.push(AuthoritySection::read(section)?);
                continue;
            }
            while !section.is_empty() {
                let bytes = section.string()?;
                match kind {
                    2 => krl.blobs.insert(bytes.to_vec()),
                    3 => krl.sha1s.insert(bytes.try_into().map_err(|_length| TRUNCATED)?),
                    5 => krl.sha256s.insert(bytes.try_into().map_err(|_length| TRUNCATED)?),
                    _ => return Err(UNKNOWN_SECTION),
                };
            }
            if !matches!(kind, 2 | 3 | 5) {
                return Err(UNKNOWN_SECTION);
            }
        }
        Ok(krl)
    }

    pub(crate) fn has_key(&self, key: &KeyDigests) -> bool {
        self.blobs.contains(&key.blob)
            || self.sha1s.contains(&key.sha1)
            || self.sha256s.contains(&key.sha256)
    }

    /// Returns true if a certificate is revoked by its serial number or key id.
    pub(crate) fn has_certificate(&self, certificate: &Certificate) -> bool {
        let signer = PublicKey::new(certificate.signature_key().clone(), "").to_bytes();
        let signer = signer.unwrap_or_default();
        let mut lists = self
            .authorities
            .iter()
            .filter(|revoked| revoked.authority.is_empty() || revoked.authority == signer);
        lists.any(|revoked| revoked.has(certificate))
    }
}

impl AuthoritySection {
    fn read(mut section: KrlReader<'_>) -> Result<Self, &'static str> {
        let authority = section.string()?.to_vec();
        section.string()?;
        let mut revoked = Self { authority, serials: Vec::new(), identities: BTreeSet::new() };
        while !section.is_empty() {
            let (kind, mut part) = (section.u8()?, KrlReader(section.string()?));
            match kind {
                0x20 => {
                    while !part.is_empty() {
                        let serial = part.u64()?;
                        revoked.serials.push((serial, serial));
                    }
                }
                0x21 => revoked.serials.push((part.u64()?, part.u64()?)),
                0x22 => {
                    let (first, bits) = (part.u64()?, part.string()?);
                    if bits.len() > MAX_BITMAP_BITS / 8 {
                        return Err("it has a bitmap that is too large");
                    }
                    revoked.serials.extend(serials(first, bits).ok_or(TRUNCATED)?);
                }
                0x23 => {
                    while !part.is_empty() {
                        revoked.identities.insert(part.string()?.to_vec());
                    }
                }
                _ => return Err(UNKNOWN_SECTION),
            }
            if !part.is_empty() {
                return Err("it has trailing bytes");
            }
        }
        Ok(revoked)
    }

    fn has(&self, certificate: &Certificate) -> bool {
        let serial = certificate.serial();
        // Serial 0 means not numbered.
        let by_serial = serial != 0
            && self.serials.iter().any(|(first, last)| (*first..=*last).contains(&serial));
        by_serial || self.identities.contains(certificate.key_id().as_bytes())
    }
}

/// Returns the serials of a bitmap: a big-endian number whose lowest bit is `first`.
fn serials(first: u64, bits: &[u8]) -> Option<Vec<(u64, u64)>> {
    let mut serials = Vec::new();
    for (at, byte) in bits.iter().rev().enumerate() {
        for bit in (0..8).filter(|bit| byte & (1 << bit) != 0) {
            let serial = first.checked_add(u64::try_from(at * 8 + bit).ok()?)?;
            serials.push((serial, serial));
        }
    }
    Some(serials)
}

/// The bytes left to parse.
struct KrlReader<'a>(&'a [u8]);

impl<'a> KrlReader<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], &'static str> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        self.bytes(N)?.try_into().map_err(|_length| TRUNCATED)
    }

    fn u8(&mut self) -> Result<u8, &'static str> {
        self.array().map(u8::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, &'static str> {
        self.array().map(u64::from_be_bytes)
    }

    fn string(&mut self) -> Result<&'a [u8], &'static str> {
        let length = usize::try_from(self.u32()?).map_err(|_large| TRUNCATED)?;
        self.bytes(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list with one section.
    fn list(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = [MAGIC, &FORMAT.to_be_bytes(), &[0; 24], &[0; 8], &[kind]].concat();
        bytes.extend(string(content));
        bytes
    }

    fn string(content: &[u8]) -> Vec<u8> {
        [&u32::try_from(content.len()).unwrap().to_be_bytes()[..], content].concat()
    }

    /// A list with one section about the certificates of any authority.
    fn revoked(kind: u8, part: &[u8]) -> Vec<u8> {
        list(1, &[&[0; 8][..], &[kind], &string(part)].concat())
    }

    #[test]
    fn an_unknown_or_truncated_list_is_an_error() {
        assert!(Krl::parse(b"ssh-ed25519 AAAA").is_none());
        assert!(Krl::parse(&list(2, &string(b"key"))).unwrap().is_ok());
        let wrong = [
            MAGIC.to_vec(),
            [MAGIC, &2_u32.to_be_bytes(), &[0; 32]].concat(),
            list(4, b""),
            list(6, b""),
            list(255, b""),
            list(3, &string(b"short")),
            list(5, &string(&[0; 20])),
            list(2, b"\0\0\0\x09key"),
            revoked(0x24, b""),
            revoked(0x39, b""),
            revoked(0x20, b"odd"),
            revoked(0x21, &[0; 17]),
            revoked(0x22, &[&u64::MAX.to_be_bytes()[..], &string(&[2])].concat()),
        ];
        for bytes in wrong {
            assert!(Krl::parse(&bytes).unwrap().is_err(), "{bytes:?}");
        }
        let whole = list(2, &string(b"key"));
        let header = whole.len() - 12;
        for end in MAGIC.len()..whole.len() {
            let cut = whole.get(..end).unwrap();
            assert_eq!(Krl::parse(cut).unwrap().is_ok(), end == header, "{end}");
        }
    }

    #[test]
    fn a_bitmap_starts_at_its_lowest_bit() {
        assert_eq!(serials(10, &[1, 0b101]), Some(vec![(10, 10), (12, 12), (18, 18)]));
        assert_eq!(serials(u64::MAX, &[1]), Some(vec![(u64::MAX, u64::MAX)]));
        assert_eq!(serials(u64::MAX, &[2]), None);
    }

    /// A certificate of `ssh-keygen -s ca -I ada -n node -z 7 -V always:forever`, and its authority.
    const CERTIFICATE: &str = "ssh-ed25519-cert-v01@openssh.com \
        AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxQG9wZW5zc2guY29tAAAAIBWgYHrwgz6mNkCEkXosWQmVQaEdvheWiPrP/DrRPcHC\
        AAAAICfulIQ1BQ1oMN5FlwwJFDLAnD0RdPWU2e7ZEzpBD/UmAAAAAAAAAAcAAAABAAAAA2FkYQAAAAgAAAAEbm9kZQAAAAAA\
        AAAA//////////8AAAAAAAAAggAAABVwZXJtaXQtWDExLWZvcndhcmRpbmcAAAAAAAAAF3Blcm1pdC1hZ2VudC1mb3J3YXJk\
        aW5nAAAAAAAAABZwZXJtaXQtcG9ydC1mb3J3YXJkaW5nAAAAAAAAAApwZXJtaXQtcHR5AAAAAAAAAA5wZXJtaXQtdXNlci1y\
        YwAAAAAAAAAAAAAAMwAAAAtzc2gtZWQyNTUxOQAAACDBW5iYgVwRmYKSkkPsWzNKDFsPRKN1KDnqjPFwmbqgzwAAAFMAAAAL\
        c3NoLWVkMjU1MTkAAABAiG9URWVUPZP7ay3IGRWg+gmdlaiLX8KQB7/z1zVLn6wNORICsnFK81211sSo+J8C4vLSuiFO7hS7\
        pmKhXuncAQ==";
    const AUTHORITY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIMFbmJiBXBGZgpKSQ+xbM0oMWw9Eo3UoOeqM8XCZuqDP";

    #[test]
    fn a_certificate_is_revoked_by_serial_or_key_id_of_its_authority() {
        use base64::Engine as _;
        let certificate = Certificate::from_openssh(CERTIFICATE).unwrap();
        let revokes =
            |list: &[u8]| Krl::parse(list).unwrap().unwrap().has_certificate(&certificate);
        let number = |number: u64| number.to_be_bytes();
        for (kind, part, is_it) in [
            (0x20, number(7).to_vec(), true),
            (0x20, [number(6), number(8)].concat(), false),
            (0x21, [number(5), number(7)].concat(), true),
            (0x21, [number(8), number(9)].concat(), false),
            (0x22, [&number(6)[..], &string(&[0b10])].concat(), true),
            (0x22, [&number(6)[..], &string(&[0b101])].concat(), false),
            (0x23, string(b"ada"), true),
            (0x23, string(b"bob"), false),
        ] {
            assert_eq!(revokes(&revoked(kind, &part)), is_it, "{kind:#x} {part:?}");
        }
        assert!(!revokes(&list(2, &string(b"key"))));
        let authority = base64::engine::general_purpose::STANDARD.decode(AUTHORITY).unwrap();
        let mut other = authority.clone();
        *other.last_mut().unwrap() ^= 1;
        for (authority, is_it) in [(authority, true), (other, false)] {
            let part =
                [&string(&authority)[..], &string(b""), &[0x20], &string(&number(7))].concat();
            assert_eq!(revokes(&list(1, &part)), is_it);
        }
    }
}
