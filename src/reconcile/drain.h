/* Between the files of the drain loop: the batch in hand, the seats, the dead letters. */
#ifndef BELFRY_RECONCILE_DRAIN_H
#define BELFRY_RECONCILE_DRAIN_H

#include "io/kafka.h"
#include "private.h"
#include "store/offsets.h"
#include "store/outcome.h"

enum {
    DRAIN_RECORDS_MAX = 1000,
    DRAIN_BYTES_MAX = 4 << 20, /* of a batch's values */
    DRAIN_RECORD_BYTES_MAX =
        64 << 10, /* a record of ours has at most 8 KiB; others' may carry more members */
    DRAIN_ARENA_BYTES_MAX = 16 << 20
};

/* A partition that is ours: its fence, and the offset up to which the table has it. */
struct drain_seat {
    bool held;
    int32_t part; /* place in the statement's parts while one is built; else -1 */
    int64_t generation, position;
};

enum drain_kind { DRAIN_TOMBSTONE, DRAIN_OUTCOME, DRAIN_LETTER };
enum letter_state { LETTER_TO_SEND, LETTER_OWED, LETTER_ACKED };

struct drain_record {
    struct kafka_record record;
    int64_t generation; /* of the seat when it was taken: a later one reads it again */
    enum drain_kind kind;
    struct outcome outcome; /* of DRAIN_OUTCOME; text in the batch's arena */
    /* of DRAIN_LETTER */
    enum letter_state letter;
    int64_t letter_id; /* of the message that was sent: the batch may shrink before its answer */
    bool cut;          /* refused as too large: the value goes cut */
    struct fault why;
};

struct drain_batch {
    struct drain_record *records; /* of DRAIN_RECORDS_MAX, in order of arrival */
    size_t count, bytes;
    size_t applied;       /* the records before it are committed */
    size_t width;         /* of the next statement; 0: all that is left */
    int patience;         /* tries with more time for a record that stands alone */
    struct arena arena;   /* what was parsed: lives as long as the batch */
    struct arena scratch; /* one statement's input */
};

struct drain {
    struct session session;
    struct db_params params; /* of the batch statement; memory is kept */
    struct offsets_scope scope;
    struct kafka_consumer *consumer;
    struct kafka_producer *producer; /* of dead letters */
    struct drain_seat *seats;        /* of KAFKA_PARTITIONS_MAX, by partition */
    int32_t seats_end;               /* no partition at or above was ever ours */
    bool seated;                     /* an assignment has come */
    bool left;                       /* on_assign failed: out of the group until the database answers */
    int64_t letters;                 /* sent so far */
    int64_t lag_ms;                  /* when the lag was last worked out */
    struct drain_batch batch;
};

/* ---- seats.c ---------------------------------------------------------------------------------------- */
enum status seats_assign(void *context, struct kafka_seat *seats, size_t count, struct fault *fault);
void seats_revoke(void *context, const struct kafka_seat *seats, size_t count, bool lost);
/* After a statement that moved nothing: learns from the table what is true of every partition of the batch,
 * seeks there, and drops the batch. A partition that is not ours any more: leaves the group and joins again.
 */
MUST_USE enum status seats_reread(struct drain *drain, struct fault *fault);
void seats_measure_lag(struct drain *drain);

/* ---- apply.c ---------------------------------------------------------------------------------------- */
/* The whole batch into the database, halved where it is refused. Run again after ST_RETRY it goes on where it
 * was. */
MUST_USE enum status apply_batch(struct drain *drain, struct fault *fault);
/* Forgets the records whose partition was taken away since they were taken. */
void batch_drop_lost(struct drain *drain);
void batch_drop(struct drain *drain);

/* ---- dead_letter.c ---------------------------------------------------------------------------------- */
MUST_USE enum status letters_open(struct drain *drain, struct fault *fault);
/* Sends the letters of the batch that are not acknowledged, and waits until they are: an offset moves only
 * then. ST_RETRY: the broker is away · ST_STOP: the topic is missing. */
MUST_USE enum status letters_flush(struct drain *drain, struct fault *fault);

#endif
