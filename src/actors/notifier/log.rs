//! The file of notifications: JSON lines with sequence numbers, rotated by size.
//!
//! The current file is `notifications.jsonl`. A full file is renamed to `notifications.<first sequence>.jsonl`, and the oldest of these are
//! deleted. A line is handed to the operating system before its number is answered, so it survives the process. It is not forced to the
//! disk, so a power cut may lose the last lines. A line that a crash tore is cut off at the next start; a line that a failed write tore,
//! before the next line.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use tokio::sync::watch;
use uuid::Uuid;

use super::NotifierConfig;

/// Of this many lines one is remembered with its place in the file.
const INDEX_EVERY: u64 = 64;

/// A notification with its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The first number is 1; each next one is higher by 1.
    pub sequence: u64,
    /// The message's id. A repetition has the same id.
    pub message_id: Uuid,
    /// The envelope as one line of JSON, without a line end.
    pub line: Arc<str>,
}

#[derive(Deserialize)]
struct Head {
    sequence: u64,
    message_id: Uuid,
}

/// A file and its lines.
struct Segment {
    path: PathBuf,
    first: u64,
    last: u64,
    /// The number of bytes of whole lines.
    len: u64,
    /// The sequence numbers and offsets of some lines, ascending.
    index: Vec<(u64, u64)>,
}

impl Segment {
    fn new(path: PathBuf, first: u64) -> Segment {
        Segment { path, first, last: first.saturating_sub(1), len: 0, index: Vec::new() }
    }

    fn add(&mut self, sequence: u64, bytes: u64) {
        if self.index.last().is_none_or(|(indexed, _)| sequence >= indexed + INDEX_EVERY) {
            self.index.push((sequence, self.len));
        }
        self.last = sequence;
        self.len += bytes;
    }

    /// Reads a file of an earlier process. `len` ends after its last good line.
    fn scan(path: PathBuf, mut seen: impl FnMut(Record)) -> io::Result<Option<Segment>> {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut segment: Option<Segment> = None;
        let mut offset = 0;
        let mut lines = Lines { reader: BufReader::new(file) };
        while let Some((bytes, record)) = lines.next()? {
            if let Some(record) = record {
                let segment = segment.get_or_insert_with(|| Segment::new(path.clone(), record.sequence));
                segment.len = offset;
                segment.add(record.sequence, bytes);
                seen(record);
            }
            offset += bytes;
        }
        if segment.as_ref().map_or(0, |segment| segment.len) < offset {
            log::warn!("{}: cutting off a torn last line", path.display());
        }
        Ok(segment)
    }

    /// Reads records after `after` until there are `limit` in all.
    fn read(&self, after: u64, limit: usize, records: &mut Vec<Record>) -> io::Result<()> {
        let near = self.index.partition_point(|(sequence, _)| *sequence <= after + 1);
        let mut offset = near.checked_sub(1).map_or(0, |at| self.index[at].1);
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            // An operator may have removed an old file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(offset))?;
        let mut lines = Lines { reader: BufReader::new(file) };
        while offset < self.len && records.len() < limit {
            let Some((bytes, record)) = lines.next()? else { break };
            offset += bytes;
            records.extend(record.filter(|record| record.sequence > after));
        }
        Ok(())
    }
}

struct Lines {
    reader: BufReader<File>,
}

impl Lines {
    /// Returns the next line's length and its record if the line is whole and sound. None at the end.
    fn next(&mut self) -> io::Result<Option<(u64, Option<Record>)>> {
        let mut bytes = Vec::new();
        let length = self.reader.read_until(b'\n', &mut bytes)?;
        if length == 0 {
            return Ok(None);
        }
        let record = bytes.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok()).and_then(|line| {
            let head: Head = serde_json::from_str(line).ok()?;
            Some(Record { sequence: head.sequence, message_id: head.message_id, line: line.into() })
        });
        Ok(Some((length as u64, record)))
    }
}

/// All notifications in order: the files, and the recent ones in memory.
pub struct NotificationLog {
    config: NotifierConfig,
    /// Oldest first. The last one is being written.
    segments: VecDeque<Segment>,
    /// The last segment's file. Opened at the first write, and again after an error.
    file: Option<File>,
    recent: VecDeque<Record>,
    recent_ids: BTreeMap<Uuid, u64>,
    newest: u64,
    /// Tells readers of a new notification.
    readers: watch::Sender<u64>,
    /// The last published number. None if nobody publishes.
    published: Option<u64>,
}

impl NotificationLog {
    /// Goes on at the end of the files. Without a configured file the log is in memory.
    pub fn open(config: NotifierConfig) -> io::Result<NotificationLog> {
        let mut log = NotificationLog {
            segments: VecDeque::new(),
            file: None,
            recent: VecDeque::new(),
            recent_ids: BTreeMap::new(),
            newest: 0,
            readers: watch::Sender::new(0),
            // Nothing may go before the publisher says where it is.
            published: (!config.rabbitmq.urls.is_empty()).then_some(0),
            config,
        };
        let Some(path) = log.config.file.clone() else { return Ok(log) };
        for path in rotated(&path)?.into_iter().chain([path]) {
            if let Some(segment) = Segment::scan(path, |record| log.remember(record))? {
                log.segments.push_back(segment);
            }
        }
        Ok(log)
    }

    /// Returns the highest number; 0 before the first.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Returns the highest number as it rises.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.readers.subscribe()
    }

    /// Notes that all notifications up to this number are published, and deletes the files that were kept for that alone.
    pub fn note_published(&mut self, sequence: u64) -> io::Result<()> {
        self.published = Some(sequence);
        self.prune()
    }

    /// Returns the number of a recent message with this id.
    pub fn find(&self, message_id: Uuid) -> Option<u64> {
        self.recent_ids.get(&message_id).copied()
    }

    /// Appends the line that `envelope` makes from its number.
    pub fn append(&mut self, message_id: Uuid, envelope: impl FnOnce(u64) -> serde_json::Result<String>) -> io::Result<Record> {
        let sequence = self.newest + 1;
        let line = envelope(sequence)?;
        self.write(sequence, &line)?;
        let record = Record { sequence, message_id, line: line.into() };
        self.remember(record.clone());
        Ok(record)
    }

    /// Returns the records after `after`, at most `limit`. Begins with the oldest kept record if `after` is older.
    pub fn read(&self, after: u64, limit: usize) -> io::Result<Vec<Record>> {
        let in_memory = self.recent.front().is_none_or(|oldest| oldest.sequence <= after + 1);
        if in_memory || self.segments.is_empty() {
            return Ok(self.recent.iter().filter(|record| record.sequence > after).take(limit).cloned().collect());
        }
        let mut records = Vec::new();
        for segment in self.segments.iter().filter(|segment| segment.last > after) {
            segment.read(after, limit, &mut records)?;
            if records.len() >= limit {
                break;
            }
        }
        Ok(records)
    }

    fn remember(&mut self, record: Record) {
        self.newest = self.newest.max(record.sequence);
        self.readers.send_replace(self.newest);
        self.recent_ids.insert(record.message_id, record.sequence);
        self.recent.push_back(record);
        if self.recent.len() > self.config.window
            && let Some(oldest) = self.recent.pop_front()
        {
            self.recent_ids.remove(&oldest.message_id);
        }
    }

    fn write(&mut self, sequence: u64, line: &str) -> io::Result<()> {
        let Some(path) = self.config.file.clone() else { return Ok(()) };
        let bytes = line.len() as u64 + 1;
        let full = |segment: &Segment| segment.len > 0 && segment.len + bytes > self.config.rotate_bytes;
        if self.segments.back().is_some_and(|current| current.path == path && full(current)) {
            self.rotate()?;
        }
        if self.segments.back().is_none_or(|current| current.path != path) {
            self.segments.push_back(Segment::new(path, sequence));
        }
        let Some(current) = self.segments.back_mut() else { return Ok(()) };
        let mut file = match self.file.take() {
            Some(file) => file,
            None => {
                let file = OpenOptions::new().create(true).append(true).open(&current.path)?;
                file.set_len(current.len)?;
                file
            }
        };
        // The file is kept open only after a whole write. The next write reopens it and cuts off the rest of a failed one.
        file.write_all(format!("{line}\n").as_bytes())?;
        self.file = Some(file);
        current.add(sequence, bytes);
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let Some(current) = self.segments.back_mut() else { return Ok(()) };
        let sealed = current.path.with_extension(format!("{}.jsonl", current.first));
        fs::rename(&current.path, &sealed)?;
        current.path = sealed;
        self.file = None;
        self.prune()
    }

    /// Deletes the oldest files beyond `keep_files` that are published, or that nobody may keep any longer.
    fn prune(&mut self) -> io::Result<()> {
        // The current file is not rotated yet and stays.
        let current = self.segments.back().is_some_and(|last| Some(&last.path) == self.config.file.as_ref());
        while self.segments.len() > self.config.keep_files + usize::from(current) {
            let Some(oldest) = self.segments.front() else { break };
            let published = self.published.unwrap_or(u64::MAX);
            if oldest.last > published {
                if self.segments.iter().map(|segment| segment.len).sum::<u64>() <= self.config.rabbitmq.keep_bytes {
                    break;
                }
                let (first, last) = (oldest.first.max(published + 1), oldest.last);
                log::error!("notifications {first} to {last} are given up unpublished: RabbitMQ was away for too long (keep_bytes)");
            }
            match fs::remove_file(&oldest.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => self.segments.pop_front(),
            };
        }
        Ok(())
    }
}

/// Returns the rotated files beside `current`, oldest first.
fn rotated(current: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(directory), Some(stem)) = (current.parent(), current.file_stem().and_then(|stem| stem.to_str())) else {
        return Ok(Vec::new());
    };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let first = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('.')).and_then(|rest| rest.strip_suffix(".jsonl"));
        if let Some(first) = first.and_then(|first| first.parse::<u64>().ok()) {
            files.insert(first, path);
        }
    }
    Ok(files.into_values().collect())
}
