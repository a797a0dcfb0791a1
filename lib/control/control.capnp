# Messages of the control plane: session <-> controller <-> rank. Serialisation only, no RPC.
#
# One Message per frame, or split over `fragment` frames when it is larger (framing.h). Bytes that
# users produce are Data, never Text: they need not be UTF-8. Every field is checked in codec.cpp
# before anything uses it. Fields and union members are only ever appended.
@0xd1f6a1c58a0d1c27;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("sk::control::wire");

struct Message {
  union {
    hello @0 :Hello;
    welcome @1 :Welcome;
    heartbeat @2 :Heartbeat;
    open @3 :Open;
    execute @4 :Execute;
    interrupt @5 :Interrupt;
    ask @6 :Ask;
    reply @7 :Reply;
    output @8 :Output;
    done @9 :Done;
    event @10 :Event;
    shutdown @11 :Void;
    fragment @12 :Fragment;
    inputRequest @13 :InputRequest;
    inputReply @14 :InputReply;
    comm @15 :Comm;
    attach @16 :Attach;
    ack @17 :Ack;
    group @18 :Group;
    configure @19 :Configure;
    logRequest @20 :LogRequest;
    note @21 :Note;
    regroup @22 :Regroup;
    absent @23 :Absent;
  }
}

# First message of a rank, and of the controller towards a session.
struct Hello {
  version @0 :UInt32;
  rank @1 :UInt32;
  pid @2 :UInt32;
  captures @3 :Bool;  # The rank reads its descriptors 1 and 2 itself from now on.
  language @4 :Data;
}

struct Welcome {
  version @0 :UInt32;
  ranks @1 :UInt32;     # To a session that attached: what it finds.
  lastCell @2 :UInt64;
  lastTag @3 :Data;
  pid @4 :UInt32;
}

struct Heartbeat {
  cell @0 :UInt64;
  waitsIn @1 :Data;   # A collective,
  waitsFor @2 :Data;  # and the ranks that have not come to it: "0-3,5".
  lingers @3 :Bool;   # As Done's, where no cell is open.
  left @4 :Bool;      # The interrupted cell's code has ended.
}

# Session to controller, once: what to start.
struct Open {
  version @0 :UInt32;
  ranks @1 :UInt32;
  argv @2 :List(Data);
  env @3 :List(Data);
  cwd @4 :Data;
  startTimeoutMs @5 :UInt64;
  leaseMs @6 :UInt64;
  forks @7 :Bool;  # Ranks are forked from a template of argv (sk_worker_template).
  interruptMs @8 :UInt64;
  name @9 :Data;  # "": nobody can attach.
  token @10 :Data;
  notebook @11 :Bool;  # SK_SESSION_NOTEBOOK.
}

struct Execute {
  cell @0 :UInt64;
  ranks @1 :Data;  # "" is all.
  code @2 :Data;
  silent @3 :Bool;
  storeHistory @4 :Bool;
  goOn @5 :Bool;
  executionCount @6 :Int64;
  kind @7 :UInt32;  # sk_request_kind.
  allowInput @8 :Bool;
  expressions @9 :Data;  # JSON; evaluated by the cell's lowest rank.
  tag @10 :Data;
}

struct Interrupt {
  cell @0 :UInt64;
  level @1 :UInt32;  # 1: the same again, for a rank that may not have heard it; 2: for one that is stuck.
}

struct Ask {
  request @0 :UInt64;
  kind @1 :UInt32;
  code @2 :Data;
  cursor @3 :UInt64;
  detail @4 :Int32;
  snapshot @5 :Bool;  # To be answered by the I/O thread: the main thread is busy.
}

struct Mime {
  type @0 :Data;
  data @1 :Data;
}

struct Reply {
  request @0 :UInt64;
  status @1 :Int32;
  answer @2 :Int32;
  start @3 :UInt64;
  end @4 :UInt64;
  strings @5 :List(Data);
  mimes @6 :List(Mime);
  text @7 :Data;
  total @8 :UInt64;
  metadata @9 :Data;
}

struct Stream {
  stream @0 :UInt32;
  text @1 :Data;
}

struct Display {
  kind @0 :UInt32;
  mimes @1 :List(Mime);
  displayId @2 :Data;
  metadata @3 :Data;  # A JSON object, or empty.
}

struct Error {
  ename @0 :Data;
  evalue @1 :Data;
  traceback @2 :List(Data);
  flags @3 :UInt32;
}

struct Record {
  timeNs @0 :Int64;  # CLOCK_MONOTONIC of the rank's host.
  union {
    stream @1 :Stream;
    display @2 :Display;
    error @3 :Error;
  }
}

# `seq` numbers a rank's records 1, 2, 3 ... over its life; `seq` here is that of records[0].
struct Output {
  cell @0 :UInt64;
  seq @1 :UInt64;
  records @2 :List(Record);
}

struct Done {
  cell @0 :UInt64;
  status @1 :UInt32;
  seqLast @2 :UInt64;  # The last record before the end, so that none can be missed.
  wallNs @3 :Int64;
  cpuNs @4 :Int64;
  reply @5 :Data;  # JSON: user expressions, payloads.
  lingers @6 :Bool;  # Other threads of the rank use communicators.
}

# Ranks that failed alike, to the last byte.
struct RankErrors {
  ranks @0 :Data;
  error @1 :Error;
}

struct RankTime {
  rank @0 :UInt32;
  wallNs @1 :Int64;
  cpuNs @2 :Int64;
}

# Controller to session: one sk_event.
struct Event {
  kind @0 :UInt32;
  seq @1 :UInt64;
  cell @2 :UInt64;
  ranks @3 :Data;
  allRanks @4 :Bool;
  status @5 :Int32;
  stream @6 :UInt32;
  display @7 :UInt32;
  text @8 :Data;
  ename @9 :Data;
  evalue @10 :Data;
  traceback @11 :List(Data);
  mimes @12 :List(Mime);
  displayId @13 :Data;
  reply @14 :Reply;
  metadata @15 :Data;
  times @16 :List(RankTime);
  comm @17 :Comm;
  tag @18 :Data;
  errors @19 :List(RankErrors);
}

# A rank waits for a line of text. `request` counts the rank's own.
struct InputRequest {
  cell @0 :UInt64;
  request @1 :UInt64;
  prompt @2 :Data;
  password @3 :Bool;
  withdrawn @4 :Bool;  # It waits no longer; nothing else counts then.
  interrupts @5 :UInt32;  # Of level 0 that the code which asks has heard in this cell.
}

# From the session with the number of its event, to the rank with the rank's own.
struct InputReply {
  request @0 :UInt64;
  state @1 :UInt32;
  text @2 :Data;  # The line, or the sentence of a refusal.
}

# A message of a comm, in any direction. `cell` collects what its handler prints.
struct Comm {
  cell @0 :UInt64;
  kind @1 :UInt32;
  id @2 :Data;
  target @3 :Data;
  data @4 :Data;  # JSON.
  metadata @5 :Data;  # JSON.
  buffers @6 :List(Data);
}

# Session to controller, instead of `open`: goes on where another front end was lost.
struct Attach {
  version @0 :UInt32;
  token @1 :Data;
}

# Session to controller: the cell's end and all before it are kept elsewhere now.
struct Ack { cell @0 :UInt64; }

# Session to controller: a text for the front end that comes after this one.
struct Note {
  name @0 :Data;
  text @1 :Data;
  kept @2 :Bool;  # False: it is needed no longer.
}

# Controller to rank, whenever a rank died, all are there again, or one asked for a new epoch.
struct Group {
  epoch @0 :UInt64;
  missing @1 :List(UInt32);
  torchPort @2 :UInt16;  # Of rank 0's servers from now on; 0: as before.
  jaxPort @3 :UInt16;
  wanted @4 :Bool;  # A rank waits in a cell for all to meet under this epoch.
}

# Controller to rank: who will enter no collective of this cell any more.
struct Absent {
  cell @0 :UInt64;
  groups @1 :List(Group);
  struct Group {
    ranks @0 :Data;  # "0-3,5".
    why @1 :Data;
  }
}

# Rank to controller: the communicators of this epoch are over.
struct Regroup {
  epoch @0 :UInt64;
  afterCell @1 :Bool;  # Not before the cell that runs has ended on all its ranks.
}

struct Fragment {
  totalBytes @0 :UInt64;
  offset @1 :UInt64;
  data @2 :Data;
}

# Session to controller: how output is shown from the next cell on; 0 leaves as it is.
struct Configure {
  tag @0 :UInt32;
  shownLines @1 :UInt64;
  shownBytes @2 :UInt64;
  keptBytes @3 :UInt64;
}

# Session to controller; answered by a reply event.
struct LogRequest {
  request @0 :UInt64;
  what @1 :UInt32;
  cell @2 :UInt64;
  executionCount @3 :Int64;
  ranks @4 :Data;
  offset @5 :UInt64;
  limit @6 :UInt64;
}
