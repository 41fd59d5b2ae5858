//! The secret that only the ranks of one job know.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{Error, Result};

/// Bytes of a secret, of a nonce and of a proof.
pub(super) const BYTES: usize = 32;

/// A job's secret: 256 bits at random.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; BYTES]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// Makes a new secret, from the kernel's generator.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the kernel does not provide random bytes.
    pub fn new() -> Result<Secret> {
        random().map(Secret)
    }

    /// 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Secret> {
        let digits = text.as_bytes();
        if digits.len() != 2 * BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut bytes = [0; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Secret(bytes))
    }

    /// Returns the proof of knowing the secret, over the sender's `role`, both sides' nonces and the claimed rank.
    pub(super) fn prove(&self, role: &[u8], nonces: [&[u8; BYTES]; 2], claim: &[u8]) -> [u8; BYTES] {
        self.mac(role, nonces, claim).finalize().into_bytes().into()
    }

    /// Returns whether `proof` is that proof. It takes the same time for a wrong proof and a right one.
    pub(super) fn verify(&self, role: &[u8], nonces: [&[u8; BYTES]; 2], claim: &[u8], proof: &[u8]) -> bool {
        self.mac(role, nonces, claim).verify_slice(proof).is_ok()
    }

    fn mac(&self, role: &[u8], nonces: [&[u8; BYTES]; 2], claim: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in [role, nonces[0], nonces[1], claim] {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

/// Returns bytes that cannot be guessed.
pub(super) fn random() -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let mut filled = 0;
    while filled < BYTES {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::system("asking the kernel for random bytes", error)),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_its_secret_its_role_its_nonces_and_its_claim() {
        let (secret, other) = (Secret::new().unwrap(), Secret::new().unwrap());
        let (a, b) = (random().unwrap(), random().unwrap());
        let proof = secret.prove(b"rank", [&a, &b], b"3");
        assert!(secret.verify(b"rank", [&a, &b], b"3", &proof));
        assert!(!other.verify(b"rank", [&a, &b], b"3", &proof));
        assert!(!secret.verify(b"hub", [&a, &b], b"3", &proof));
        assert!(!secret.verify(b"rank", [&b, &a], b"3", &proof));
        assert!(!secret.verify(b"rank", [&a, &b], b"4", &proof));
        assert!(!secret.verify(b"rank", [&a, &b], b"3", &proof[1..]));
    }

    #[test]
    fn debug_does_not_print_a_secret() {
        let secret = Secret::new().unwrap();
        assert_eq!(Secret::from_hex(&secret.to_hex()).as_ref(), Some(&secret));
        assert!(!format!("{secret:?}").contains(&secret.to_hex()));
        let hex = secret.to_hex();
        for wrong in [&hex[1..], "", &format!("{hex}0"), &hex.replace('0', "g"), &"+1".repeat(32)] {
            assert!(wrong == hex || Secret::from_hex(wrong).is_none(), "{wrong}");
        }
    }
}
