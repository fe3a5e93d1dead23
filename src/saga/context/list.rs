//! The macro that makes the types of all operations from their list: [`Kind`](super::Kind), [`Request`](super::Request) and
//! [`Context`](super::Context), each with a variant per operation.

/// Makes the types from a list with a line per operation:
///
/// ```text
/// Kind(Part) by tables::tables::OPERATION, for Request(own: Payload) => own;
/// ```
///
/// `Part` is the operation's part of a context, and the constant its [`Operation`](crate::saga::operation::Operation). Then come the requests
/// that begin the operation, each with the value that the part keeps of it: `Part::begin(facts, value)` makes the part.
macro_rules! operations {
    ($(
        $kind:ident($part:ident) by $operation:path, for $(
            $(#[$doc:meta])*
            $request:ident $(($own:ident: $payload:ty))? $({ $field:ident: $type:ty })? => $value:expr
        ),+;
    )+) => {
        /// The kinds of sagas.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Kind {
            $($kind),+
        }

        impl Kind {
            /// All kinds, in the order of the list.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind),+];

            /// Returns the declaration of the operation.
            pub const fn operation(self) -> Operation {
                match self {
                    $(Kind::$kind => $operation,)+
                }
            }
        }

        /// A request for an operation on a server.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        pub enum Request {
            $($(
                $(#[$doc])*
                $request $(($payload))? $({ $field: $type })?,
            )+)+
        }

        $($($(
            impl From<$payload> for Request {
                fn from(own: $payload) -> Request {
                    Request::$request(own)
                }
            }

            impl TryFrom<Request> for $payload {
                type Error = Request;

                fn try_from(request: Request) -> Result<$payload, Request> {
                    match request {
                        Request::$request(own) => Ok(own),
                        other => Err(other),
                    }
                }
            }
        )?)+)+

        /// The state that a saga carries from step to step.
        #[derive(Clone, PartialEq, Debug, Serialize)]
        #[serde(untagged)]
        pub enum Context {
            $($kind($part)),+
        }

        impl Context {
            /// Makes the context of a new saga.
            pub fn new(saga: Uuid, caller: RequestContext, server: Uuid, request: Request) -> Context {
                let facts = |kind| ServerFacts::new(Head::new(saga, kind, caller.clone(), server));
                match request {
                    $($(
                        Request::$request $(($own))? $({ $field })? => Context::$kind($part::begin(facts(Kind::$kind), $value)),
                    )+)+
                }
            }

            /// Returns the operation's part, for code that all operations share.
            pub fn part(&self) -> &(dyn Part + 'static) {
                match self {
                    $(Context::$kind(part) => part,)+
                }
            }

            /// See [`Context::part`].
            pub fn part_mut(&mut self) -> &mut (dyn Part + 'static) {
                match self {
                    $(Context::$kind(part) => part,)+
                }
            }

            /// Reads the stored form of a context of this kind.
            fn of_stored(kind: Kind, stored: Value) -> serde_json::Result<Context> {
                match kind {
                    $(Kind::$kind => serde_json::from_value(stored).map(Context::$kind),)+
                }
            }
        }
    };
}
pub(super) use operations;
