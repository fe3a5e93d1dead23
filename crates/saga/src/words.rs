//! Enumerations whose values are words of a journal. The text of a word never changes, because journals outlive the program that wrote them.

/// Declares an enumeration and the word of each value.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of_word:meta])* $word:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$of_word])* $word),+ }

        impl $name {
            /// All values, in the order of declaration.
            pub const ALL: &'static [$name] = &[$($name::$word),+];

            /// Returns the word.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$word => $text),+ }
            }

            /// Returns the value of a word; none if this release has no such word.
            pub fn parse(text: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;
