//! The threads on which actors run. A service may have one for each core; the root of its actors gives each child a home on one of them, in
//! turn. A simulation has none: everything runs on its own thread and replays.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix::prelude::*;
use parking_lot::Mutex;

/// The maximum number of threads that a configuration may ask for.
pub const ARBITERS_MAX: usize = 64;

/// The threads of a tree's actors. They end with the last clone.
#[derive(Clone, Default)]
pub struct Arbiters(Arc<Threads>);

#[derive(Default)]
struct Threads {
    running: Mutex<Vec<ArbiterHandle>>,
    /// The number of homes given so far.
    homes: AtomicUsize,
    /// The maximum size of each thread's pool for blocking work.
    blocking: usize,
}

impl Drop for Threads {
    fn drop(&mut self) {
        for arbiter in self.running.get_mut() {
            arbiter.stop();
        }
    }
}

/// The thread on which an actor and its successors run.
#[derive(Clone)]
pub struct Home {
    arbiters: Arbiters,
    index: usize,
}

impl Arbiters {
    /// Starts this many threads, each with a pool of at most `blocking` threads for blocking work. With 0, actors run on the thread that
    /// starts them.
    pub fn start(count: usize, blocking: usize) -> io::Result<Arbiters> {
        let running = (0..count).map(|_| new_arbiter(blocking)).collect::<io::Result<_>>()?;
        Ok(Arbiters(Arc::new(Threads { running: Mutex::new(running), homes: AtomicUsize::new(0), blocking })))
    }

    /// Returns the next home; the threads take turns.
    pub fn home(&self) -> Home {
        Home { arbiters: self.clone(), index: self.0.homes.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Home {
    /// Starts an actor here. A thread that has ended is replaced.
    pub fn start<A: Actor<Context = Context<A>>>(&self, make: impl FnOnce() -> A + Send + 'static) -> Addr<A> {
        match self.arbiter() {
            Some(arbiter) => A::start_in_arbiter(&arbiter, |_| make()),
            None => make().start(),
        }
    }

    fn arbiter(&self) -> Option<ArbiterHandle> {
        let threads = &self.arbiters.0;
        let mut running = threads.running.lock();
        let index = self.index.checked_rem(running.len())?;
        let is_alive = running[index].spawn(std::future::ready(()));
        if !is_alive {
            match new_arbiter(threads.blocking) {
                Ok(successor) => running[index] = successor,
                // The actor's supervisor hears of its death and tries again.
                Err(error) => log::error!("a thread for actors does not start: {error}"),
            }
        }
        Some(running[index].clone())
    }
}

fn new_arbiter(blocking: usize) -> io::Result<ArbiterHandle> {
    let runtime = move || tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(blocking).build();
    Ok(Arbiter::try_with_tokio_rt(runtime)?.handle())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells the thread that it runs on.
    struct Here;

    impl Actor for Here {
        type Context = Context<Here>;
    }

    #[derive(Message)]
    #[rtype(result = "std::thread::ThreadId")]
    struct Which;

    impl Handler<Which> for Here {
        type Result = MessageResult<Which>;

        fn handle(&mut self, _: Which, _: &mut Self::Context) -> Self::Result {
            MessageResult(std::thread::current().id())
        }
    }

    async fn thread_of(home: &Home) -> std::thread::ThreadId {
        home.start(|| Here).send(Which).await.expect("the actor runs")
    }

    #[actix::test]
    async fn homes_take_turns_and_keep_their_thread() {
        let arbiters = Arbiters::start(2, 4).unwrap();
        let (first, second, third) = (arbiters.home(), arbiters.home(), arbiters.home());
        let threads = (thread_of(&first).await, thread_of(&second).await, thread_of(&third).await);
        assert_ne!(threads.0, threads.1);
        assert_eq!((threads.0, threads.0), (threads.2, thread_of(&first).await));
        assert_ne!(threads.0, std::thread::current().id());
    }

    #[actix::test]
    async fn without_arbiters_actors_run_on_the_thread_that_starts_them() {
        assert_eq!(thread_of(&Arbiters::default().home()).await, std::thread::current().id());
    }

    #[actix::test]
    async fn a_thread_that_has_ended_is_replaced() {
        let arbiters = Arbiters::start(1, 4).unwrap();
        let home = arbiters.home();
        let actor = home.start(|| Here);
        let before = actor.send(Which).await.unwrap();
        home.arbiter().unwrap().stop();
        // The actor's address closes when its thread ends.
        while actor.send(Which).await.is_ok() {}
        assert_ne!(thread_of(&home).await, before);
    }

    #[actix::test]
    async fn the_threads_end_with_their_last_holder() {
        let arbiters = Arbiters::start(1, 4).unwrap();
        let actor = arbiters.home().start(|| Here);
        assert!(actor.send(Which).await.is_ok());
        drop(arbiters);
        while actor.send(Which).await.is_ok() {}
    }
}
