//! The registry of one service, and the list of its metrics by which tests compare the documentation, the alerts and the dashboard.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

/// A metric as documents describe it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetricDescription {
    /// The name in queries. A histogram's samples also end with `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: Vec<&'static str>,
    /// The sentence of its `HELP` line, without the full stop.
    pub help: &'static str,
}

/// The registry with the list of its metrics.
#[derive(Default)]
pub(super) struct Book {
    registry: Registry,
    descriptions: Vec<MetricDescription>,
}

impl Book {
    /// Registers counters with these labels. The name ends with `_total`.
    pub(super) fn counters<const N: usize>(&mut self, name: &'static str, labels: [&'static str; N], help: &'static str) -> Counters<N> {
        let counters = Labelled { labels, family: Family::default() };
        self.add(MetricDescription { name, kind: "counter", labels: labels.to_vec(), help }, counters.family.clone());
        counters
    }

    /// Registers a counter without labels.
    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> Tally {
        let counter = Counter::default();
        self.add(MetricDescription { name, kind: "counter", labels: Vec::new(), help }, counter.clone());
        Tally(counter)
    }

    /// Registers gauges with these labels.
    pub(super) fn gauges<const N: usize>(&mut self, name: &'static str, labels: [&'static str; N], help: &'static str) -> Gauges<N> {
        let gauges = Labelled { labels, family: Family::default() };
        self.add(MetricDescription { name, kind: "gauge", labels: labels.to_vec(), help }, gauges.family.clone());
        gauges
    }

    /// Registers a gauge without labels.
    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> Level {
        let gauge = Gauge::default();
        self.add(MetricDescription { name, kind: "gauge", labels: Vec::new(), help }, gauge.clone());
        Level(gauge)
    }

    /// Registers histograms of durations with these labels. `new` makes the histogram of one set of values.
    pub(super) fn durations<const N: usize>(
        &mut self,
        name: &'static str,
        labels: [&'static str; N],
        help: &'static str,
        new: fn() -> Histogram,
    ) -> Durations<N> {
        let durations = Labelled { labels, family: Family::new_with_constructor(new) };
        self.add(MetricDescription { name, kind: "histogram", labels: labels.to_vec(), help }, durations.family.clone());
        durations
    }

    /// Lists a metric that a collector encodes.
    pub(super) fn collects(&mut self, description: MetricDescription) {
        self.descriptions.push(description);
    }

    /// Returns the registry, for collectors.
    pub(super) fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Ends the registration, and returns the registry with the list.
    pub(super) fn close(self) -> (Registry, Vec<MetricDescription>) {
        (self.registry, self.descriptions)
    }

    /// The encoder appends the unit and `_total`, so both are taken off the name that readers see.
    fn add(&mut self, description: MetricDescription, metric: impl Metric) {
        let base = description.name.strip_suffix("_total").unwrap_or(description.name);
        match [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)].into_iter().find(|(suffix, _)| base.ends_with(suffix)) {
            Some((suffix, unit)) => self.registry.register_with_unit(&base[..base.len() - suffix.len()], description.help, unit, metric),
            None => self.registry.register(base, description.help, metric),
        }
        self.descriptions.push(description);
    }
}

/// Returns all metrics as text in the OpenMetrics format.
pub(super) fn text(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(text)
}

type Values<const N: usize> = [(&'static str, String); N];

/// Metrics that differ in the values of their labels.
pub(super) struct Labelled<const N: usize, M, C = fn() -> M> {
    labels: [&'static str; N],
    family: Family<Values<N>, M, C>,
}

impl<const N: usize, M, C: Clone> Clone for Labelled<N, M, C> {
    fn clone(&self) -> Self {
        Labelled { labels: self.labels, family: self.family.clone() }
    }
}

pub(super) type Counters<const N: usize> = Labelled<N, Counter>;
pub(super) type Gauges<const N: usize> = Labelled<N, Gauge>;
pub(super) type Durations<const N: usize> = Labelled<N, Histogram>;

impl<const N: usize, M: Clone> Labelled<N, M> {
    /// Returns the metric with these values, in the order of the labels.
    pub(super) fn of(&self, values: [&str; N]) -> M {
        self.family.get_or_create_owned(&self.set(values))
    }

    /// Returns the metric with these values. None if nothing was counted under them: it gets no sample by that.
    pub(super) fn present(&self, values: [&str; N]) -> Option<M> {
        self.family.get(&self.set(values)).map(|metric| metric.clone())
    }

    fn set(&self, values: [&str; N]) -> Values<N> {
        std::array::from_fn(|label| (self.labels[label], values[label].to_owned()))
    }
}

impl<const N: usize> Durations<N> {
    /// Counts a duration under these values.
    pub(super) fn observe(&self, values: [&str; N], took: Duration) {
        self.of(values).observe(took.as_secs_f64());
    }
}

/// A counter, looked up once by its owner. The default counts for nobody.
#[derive(Clone, Default, Debug)]
pub struct Tally(pub(super) Counter);

impl Tally {
    /// Counts one event.
    pub fn note(&self) {
        self.0.inc();
    }
}

/// A gauge, looked up once by its owner. The default shows nobody its value.
#[derive(Clone, Default, Debug)]
pub struct Level(pub(super) Gauge);

impl Level {
    /// Sets the value.
    pub fn set(&self, value: usize) {
        self.0.set(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// Returns the value.
    pub(super) fn get(&self) -> i64 {
        self.0.get()
    }

    /// Raises the value by one until the guard is dropped.
    pub fn enter(&self) -> Within {
        self.0.inc();
        Within(self.clone())
    }
}

/// Counts for a [`Level`] until it is dropped.
#[derive(Debug)]
pub struct Within(Level);

impl Drop for Within {
    fn drop(&mut self) {
        self.0.0.dec();
    }
}
