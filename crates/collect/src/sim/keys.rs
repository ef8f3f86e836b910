//! SSH keys of the simulated fleet, derived from its seed; they protect nothing.

use std::io;

use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::private::{Ed25519Keypair, KeypairData};
use russh::keys::{PrivateKey, PublicKey};

use crate::sim::rng::Rng;

/// Derives a key from a node of the tree.
pub(crate) fn generate_key(rng: Rng) -> io::Result<PrivateKey> {
    let pair = Ed25519Keypair::from_seed(&rng.key_bytes());
    PrivateKey::new(KeypairData::Ed25519(pair), "gtop-demo").map_err(io::Error::other)
}

/// Encodes a private key in OpenSSH's format.
pub(crate) fn private_text(key: &PrivateKey) -> io::Result<String> {
    let text = key.to_openssh(LineEnding::LF).map_err(io::Error::other)?;
    Ok(text.as_str().to_owned())
}

/// Encodes a public key as a line of OpenSSH.
pub(crate) fn public_text(key: &PublicKey) -> io::Result<String> {
    key.to_openssh().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_keys() {
        let text = |seed| public_text(generate_key(Rng::new(seed)).unwrap().public_key()).unwrap();
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
        assert!(text(1).starts_with("ssh-ed25519 AAAA"));
        let again = private_text(&generate_key(Rng::new(1)).unwrap()).unwrap();
        assert_eq!(
            PrivateKey::from_openssh(&again).unwrap().public_key().key_data(),
            generate_key(Rng::new(1)).unwrap().public_key().key_data()
        );
    }
}
