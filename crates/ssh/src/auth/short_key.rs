//! Reads ECDSA keys whose private number is short, which the SSH library refuses.
//!
//! A file has that number without leading zeros (`PROTOCOL.key` of OpenSSH, RFC 4251 `mpint`): one P-256 key of 256 has
//! fewer than 32 bytes. The same file with the zeros is read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use russh::keys::PrivateKey;
use zeroize::Zeroizing;

const MAGIC: &[u8] = b"openssh-key-v1\0";
const KIND: &[u8] = b"ecdsa-sha2-nistp256";
/// Bytes of the private number of a P-256 key.
const NUMBER_LENGTH: usize = 32;
/// The private part is a multiple of this.
const BLOCK: usize = 8;

/// Returns the key of an unencrypted file; `None` if it is of another kind, or not short.
pub(super) fn read_short_key(text: &str) -> Option<PrivateKey> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
    let encoded = Zeroizing::new(lines.collect::<String>());
    let bytes = Zeroizing::new(STANDARD.decode(encoded.as_bytes()).ok()?);
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let (cipher, _derivation, _options) =
        (take_string(&mut rest)?, take_string(&mut rest)?, take_string(&mut rest)?);
    let _count = take(&mut rest, 4)?;
    let _public = take_string(&mut rest)?;
    let head = bytes.get(..bytes.len() - rest.len())?;
    let mut private = take_string(&mut rest)?;
    if cipher != b"none" {
        return None;
    }
    let begin = private;
    let _checks = take(&mut private, 8)?;
    let kind = take_string(&mut private)?;
    let (_curve, _point) = (take_string(&mut private)?, take_string(&mut private)?);
    let before = begin.get(..begin.len() - private.len())?;
    let number = take_string(&mut private)?;
    let comment = take_string(&mut private)?;
    if kind != KIND || number.len() >= NUMBER_LENGTH {
        return None;
    }
    let mut padded = Zeroizing::new([0; NUMBER_LENGTH]);
    padded.get_mut(NUMBER_LENGTH - number.len()..)?.copy_from_slice(number);
    let mut section = Zeroizing::new(before.to_vec());
    put_string(&mut section, &*padded);
    put_string(&mut section, comment);
    let missing = section.len().next_multiple_of(BLOCK) - section.len();
    section.extend((1..).take(missing));
    let mut whole = Zeroizing::new(head.to_vec());
    put_string(&mut whole, &section);
    PrivateKey::from_bytes(&whole).ok()
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// Takes a length and so many bytes (RFC 4251 `string`).
fn take_string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_be_bytes(take(rest, 4)?.try_into().ok()?);
    take(rest, usize::try_from(length).ok()?)
}

fn put_string(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    to.extend(bytes);
}

#[cfg(test)]
mod tests {
    use russh::keys::PublicKey;
    use russh::keys::ssh_key::LineEnding;
    use russh::keys::ssh_key::private::Ed25519Keypair;

    use super::*;

    /// Made by ssh-keygen; its private number has 31 bytes.
    const SHORT: &str = "-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAaAAAABNlY2RzYS
1zaGEyLW5pc3RwMjU2AAAACG5pc3RwMjU2AAAAQQQt/GCR8xSQUmIX9NseGD1fOk/zsPV8
0l4jefPLtWgTS4Iosje8DGGBGs25jabIz108Ch1p3fZjIonlOsvBfoFeAAAAoKUwSmOlME
pjAAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBC38YJHzFJBSYhf0
2x4YPV86T/Ow9XzSXiN588u1aBNLgiiyN7wMYYEazbmNpsjPXTwKHWnd9mMiieU6y8F+gV
4AAAAfWdhp10JP4n9siWgywaHND88ysDT/4h1Pdd17lY8KNwAAAAdyb290QHZtAQI=
-----END OPENSSH PRIVATE KEY-----
";
    const PUBLIC: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBC38YJHzFJBSYhf02x4YPV86T/Ow9XzSXiN588u1aBNLgiiyN7wMYYEazbmNpsjPXTwKHWnd9mMiieU6y8F+gV4=";

    #[test]
    fn a_short_key_is_read_as_ssh_reads_it() {
        let key = read_short_key(SHORT).unwrap();
        let public = PublicKey::from_openssh(PUBLIC).unwrap();
        assert_eq!(key.public_key().key_data(), public.key_data());
        // The library does not read it; once it does, this file is of no use.
        assert!(PrivateKey::from_openssh(SHORT).is_err());
    }

    #[test]
    fn what_is_no_short_key_is_left_to_the_library() {
        let other = PrivateKey::from(Ed25519Keypair::from_seed(&[7; 32]));
        let other = other.to_openssh(LineEnding::LF).unwrap();
        let cut = SHORT.get(..400).unwrap();
        for text in ["", "-----BEGIN OPENSSH PRIVATE KEY-----\n!\n", cut, &other] {
            assert!(read_short_key(text).is_none(), "{text}");
        }
    }
}
