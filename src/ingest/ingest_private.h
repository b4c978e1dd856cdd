/* What the files of src/ingest share: a batch and its items, the seats of partitions, and the loop's waiting.
 *
 * Two batches exist: one at work (in the hands of a stage), one forming behind it. A batch is a run of
 * records of both topics in the order they were taken; it owns an arena, and everything of it lives until
 * batch_reset. */
#ifndef BELFRY_SRC_INGEST_PRIVATE_H
#define BELFRY_SRC_INGEST_PRIVATE_H

#include "base/arena.h"
#include "base/backoff.h"
#include "base/log.h"
#include "ingest/ingest.h"
#include "io/kafka.h"
#include "store/claim.h"
#include "store/devices.h"
#include "store/offsets.h"

enum { TOPIC_EVENTS, TOPIC_DEVICES, TOPICS };

enum {
    FLIGHT_PARTS_MAX = OFFSET_PARTS_MAX,
    RANGES_MAX = 64,       /* of a batch cut into halves: twice the depth of 10,000 items and more */
    PAUSE_AFTER_MS = 1000, /* a wait shorter than this is not worth throwing the prefetch away */
    BEAT_MAX_MS = 60000,
    SLOW_RETRY_MS = 5000, /* after ST_STOP: an operator must act */
    FAULTS_BYTES_MAX = 8 * 1024 * 1024,
    NOTE_MAX = 200
};

/* ---- seats --------------------------------------------------------------------------------------------- */

/* A partition we hold: from its seating to its revocation. */
struct seat {
    int topic;
    int32_t partition;
    int64_t generation; /* the fence's */
    int64_t epoch;      /* ours: new with each seating and each seek; an item of another epoch is stale */
    int64_t position;   /* start of the next record to be taken */
};

/* ---- batches ------------------------------------------------------------------------------------------- */

enum item_kind {
    ITEM_RAW, /* not parsed yet */
    ITEM_EVENT,
    ITEM_CHANGE,
    ITEM_TOMBSTONE,
    ITEM_DEAD,
    ITEM_DROPPED /* its partition went away, or the next batch has it: as if never taken */
};

enum dead_state { DEAD_TO_SEND, DEAD_SENT, DEAD_ACKNOWLEDGED };

struct item {
    struct kafka_record record;
    int64_t start; /* next_offset of the partition before this record; holes are transaction markers */
    int64_t epoch, generation;
    enum item_kind kind;
    struct event *event;          /* ITEM_EVENT */
    struct device_change *change; /* ITEM_CHANGE */
    const struct fault *reason;   /* ITEM_DEAD */
    enum dead_state dead;
    int cut; /* how far the dead letter was cut because it was refused as too large */
};

struct batch {
    int64_t serial; /* tells the deliveries of this use from those of an earlier one */
    struct arena arena, faults;
    struct item *items; /* batch_max_events of them */
    size_t count, parsed;
    size_t raw_bytes, row_bytes, recipients, kept;
    bool closed;           /* the next record did not fit: items[parsed] and later go to the next batch */
    int64_t dead_retry_ms; /* when a refused dead letter is tried again */
    size_t dead_unsettled; /* dead letters not yet acknowledged */
};

/* Items from … to − 1 of a batch. */
struct range {
    size_t from, to;
};

/* One statement on the wire: what it moves and what came of it. */
struct flight {
    bool under_way, answered;
    int topic;
    struct offsets_part parts[FLIGHT_PARTS_MAX];
    size_t part_count;
    size_t picked_count;
    bool take;  /* two places of the hand-over are reserved */
    bool moved; /* it is in the database */
    enum status status;
    struct fault fault;
    struct claim_outcome claimed;
    struct devices_outcome applied;
};

struct ingest {
    struct ingest_setup setup;
    struct clock clock;
    char group[256];
    struct db *db;
    struct claim *claim;
    struct devices *devices;
    struct kafka_consumer *consumer;
    struct kafka_producer *dead_letters;
    struct metric_set *metrics;
    size_t ready_slot;
    struct seat *seats; /* sorted by topic, partition */
    size_t seat_count, seat_last;
    int64_t epochs;
    struct batch batches[2];
    struct batch *work, *forming;
    int64_t serials;
    const void **picked; /* events or changes of the statement on the wire */
    struct flight flight;
    struct backoff backoff;
    int64_t stop_deadline_ms; /* set when the stop was first seen; 0: not stopping */
    int64_t full_since_ms;    /* the forming batch is full and waits; 0: it is not */
    int64_t rejoin_at_ms;     /* the group was left; go back in then; 0: we are in it */
    int64_t lag_told_ms;
    bool seated;              /* in the group, perhaps with no partition */
    bool more;                /* Kafka had more than the forming batch could take */
    bool retention_unchecked; /* the events topic was missing when its configuration was asked for */
    bool stopped;             /* said so; until ingest_say_ready */
    struct log_gate gate;
    int64_t database_look_ms; /* while idle: when to connect again */
    enum status kafka_status; /* of a fatal consumer or producer, met while a stage waited */
    struct fault kafka_fault;
};

/* ---- the loop (ingest.c) ------------------------------------------------------------------------------- */

/* One turn of waiting: database, dead letters, Kafka; takes and parses what is ready into the forming batch.
 * Waits at most timeout_ms for anything to happen. Not ST_OK: ST_FATAL, Kafka's client is dead. */
MUST_USE enum status ingest_idle(struct ingest *ingest, int timeout_ms, struct fault *fault);
/* Idles for so long. False: the stop was asked for, or Kafka is dead (kafka_status). */
MUST_USE bool ingest_rest(struct ingest *ingest, int64_t ms);
/* The stop was asked for and its time is up, or Kafka is dead: leave everything as it is. */
bool ingest_must_leave(struct ingest *ingest);
/* Not ready: ST_STOP, an operator must act; ST_RETRY, something is away. Logged at once, then now and then.
 */
void ingest_say_stopped(struct ingest *ingest, const char *what, enum status status,
                        const struct fault *fault);
/* Ready again, if nothing else speaks against it. */
void ingest_say_ready(struct ingest *ingest);
/* Makes the connection when it is down. */
MUST_USE enum status ingest_connect(struct ingest *ingest, struct fault *fault);
const char *ingest_topic(const struct ingest *ingest, int topic);
struct offsets_scope ingest_scope(const struct ingest *ingest, int topic);

/* ---- stages, in order ----------------------------------------------------------------------------------
 * ST_OK: done · ST_STOP: the process leaves and the batch is left as it is · ST_FATAL: it leaves with the
 * fault. */

MUST_USE enum status ingest_consume(struct ingest *ingest, struct batch *batch, struct fault *fault);
MUST_USE enum status ingest_parse(struct ingest *ingest, struct batch *batch, struct fault *fault);
MUST_USE enum status ingest_dead_letter(struct ingest *ingest, struct batch *batch, struct fault *fault);
MUST_USE enum status ingest_claim(struct ingest *ingest, struct batch *batch, struct fault *fault);
MUST_USE enum status ingest_commit(struct ingest *ingest, struct batch *batch, struct fault *fault);

/* ---- parts of them ------------------------------------------------------------------------------------- */

MUST_USE enum status batch_init(struct batch *batch, size_t items_max, struct fault *fault);
void batch_done(struct batch *batch);
/* Releases every record; memory is kept. */
void batch_reset(struct batch *batch, int64_t serial);
void batch_drop_item(struct batch *batch, struct item *item);
/* Drops the items whose seat is gone or was taken anew. */
void batch_prune(struct ingest *ingest, struct batch *batch);
/* Moves what was taken but not parsed into the (empty) next batch. */
void batch_hand_on(struct batch *from, struct batch *to);
bool batch_is_full(const struct ingest *ingest, const struct batch *batch);

/* Sends the dead letters not yet sent; acknowledgements come while idling. */
MUST_USE enum status dead_letter_send(struct ingest *ingest, struct batch *batch, struct fault *fault);
/* Makes a dead letter of an item; the fault is copied. False: no memory for the reason. */
MUST_USE bool dead_letter_mark(struct ingest *ingest, struct batch *batch, struct item *item,
                               const struct fault *reason);
void dead_letter_delivered(void *context, int64_t opaque, enum status status, const struct fault *fault);

struct seat *seat_find(struct ingest *ingest, int topic, int32_t partition);
enum status seat_assign(void *context, struct kafka_seat *seats, size_t count, struct fault *fault);
void seat_revoke(void *context, const struct kafka_seat *seats, size_t count, bool lost);
/* Forgets it: its items are stale from now on. */
void seat_forget(struct ingest *ingest, int topic, int32_t partition);
/* The partition goes on at this offset: its items are stale from now on. */
void seat_restart(struct ingest *ingest, struct seat *seat, int64_t offset);

/* Picks a run's items of one topic for the next statement. False: none is left. */
MUST_USE bool flight_load(struct ingest *ingest, const struct batch *batch, int topic,
                          const struct range *range);
/* Sends it. */
MUST_USE enum status flight_start(struct ingest *ingest, struct fault *fault);
/* Its offsets are in the database: counts them and tells the consumer. */
void flight_mark_done(struct ingest *ingest);
/* The statement on the wire: waits for its answer for at most timeout_ms without touching Kafka, reads it,
 * and marks its offsets as done when it moved. True when the answer is there. */
bool flight_land(struct ingest *ingest, int timeout_ms);

/* Before the first record: schema, topics, key retention. */
MUST_USE enum status preflight_run(struct ingest *ingest, struct fault *fault);
/* The events topic against key_retention. ST_FATAL: keys would be forgotten before their records. */
MUST_USE enum status preflight_retention(struct ingest *ingest, struct fault *fault);

/* ---- metrics (ingest_metrics.c) ------------------------------------------------------------------------ */

enum { INGEST_LAGS_MAX = 1024 }; /* partitions whose lag is shown one by one */

enum ingest_metric {
    M_RECORDS,
    M_TOMBSTONES,
    M_NOTIFICATIONS,
    M_DUPLICATES,
    M_MISMATCHES,
    M_ERASED,
    M_DISPATCHES,
    M_SUPPRESSED,
    M_DEVICE_CHANGES,
    M_DEAD_LETTERS,
    M_LOST_OFFSETS,
    M_STAGE_SECONDS,
    M_BATCH_EVENTS,
    M_RETRIES,
    M_ALARMS,
    M_REBALANCES,
    M_PARTITIONS,
    M_LAG,
    M_PARTITION_LAG,
    M_OLDEST_RECORD,
    M_STAGE_IN_FLIGHT,
    M_RETENTION_UNKNOWN,
    INGEST_METRICS
};

extern const struct metric_row ingest_metric_rows[INGEST_METRICS];

#endif
