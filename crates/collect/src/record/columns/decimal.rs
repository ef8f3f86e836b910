//! Numbers as they are written: whole numbers and decimals that can be written again digit by digit.

/// Decimals of a number at most.
pub(super) const MAX_SCALE: usize = 6;

/// A number: `digits / 10^scale`, written with this many decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) digits: i64,
    /// 0 for a whole number.
    pub(super) scale: usize,
}

impl Decimal {
    /// Reads a number; `None` if writing it again would give another text.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let (is_negative, unsigned) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let has_leading_zero = matches!(unsigned, [b'0', next, ..] if next.is_ascii_digit());
        if has_leading_zero || !unsigned.first()?.is_ascii_digit() {
            return None;
        }
        let (mut digits, mut scale) = (0_i64, None);
        for byte in unsigned {
            match byte {
                b'0'..=b'9' => {
                    digits = digits.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
                    scale = scale.map(|scale: usize| scale + 1);
                }
                b'.' if scale.is_none() => scale = Some(0),
                _ => return None,
            }
        }
        let is_written_otherwise = scale == Some(0) || is_negative && digits == 0;
        let digits = if is_negative { -digits } else { digits };
        let number = Self { digits, scale: scale.unwrap_or(0) };
        let is_in_range = number.scale == 0 || number.digits_at(MAX_SCALE).is_some();
        (!is_written_otherwise && is_in_range).then_some(number)
    }

    /// Returns true if it is written with the fewest decimals, of which there is at least one.
    pub(super) fn is_shortest(self) -> bool {
        self.scale <= 1 || self.digits % 10 != 0
    }

    /// Returns the digits with more decimals.
    pub(super) fn digits_at(self, scale: usize) -> Option<i64> {
        let more = u32::try_from(scale.checked_sub(self.scale)?).ok()?;
        self.digits.checked_mul(10_i64.checked_pow(more)?)
    }

    /// Returns it with no more than these decimals, which must be enough.
    pub(super) fn with_scale(self, scale: usize) -> Option<Self> {
        let less = u32::try_from(self.scale.checked_sub(scale)?).ok()?;
        Some(Self { digits: self.digits / 10_i64.checked_pow(less)?, scale })
    }

    /// Returns it with the fewest decimals.
    pub(super) fn shortest(mut self) -> Self {
        while !self.is_shortest() {
            self.digits /= 10;
            self.scale -= 1;
        }
        self
    }

    /// Appends it with its decimals.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        if self.digits < 0 {
            out.push(b'-');
        }
        let mut rest = self.digits.unsigned_abs();
        // From the last digit on: at most 19 digits, the point and a zero before it.
        let mut reversed = [0; 24];
        let mut length = 0;
        let whole_from = if self.scale > 0 { self.scale + 1 } else { 0 };
        for byte in &mut reversed {
            if length > whole_from && rest == 0 {
                break;
            }
            if self.scale > 0 && length == self.scale {
                *byte = b'.';
            } else {
                *byte = b'0' + u8::try_from(rest % 10).unwrap_or_default();
                rest /= 10;
            }
            length += 1;
        }
        out.extend(reversed.iter().take(length).rev());
    }
}
