/* belfry-dispatcher --replay-dlq: dead letters -> their origin topic and partition again.
 *
 * Every record now in the dead letter topic is looked at. What is put back has the key, the value, the
 * headers and the timestamp it came with, without belfry.error.* and belfry.origin.*, and belfry.replays
 * counted up. Each record once: told apart by origin topic, partition, offset and timestamp, remembered in
 * the table `replays` once its topic has acknowledged it; filters leave the others for a later run. Killed in
 * between, at most one batch is put back again by the next run: keys then say duplicate, and a device's
 * change is not newer than itself. Two runs at once share the partitions: they are members of the group
 * GROUP-replay. */
#ifndef BELFRY_INGEST_REPLAY_H
#define BELFRY_INGEST_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/status.h"
#include "io/db.h"
#include "io/settings.h"

enum { REPLAY_TIMES_MAX = 3, REPLAY_CODES_MAX = 32, REPLAY_TEXT_MAX = 256 };

enum replay_verdict {
    REPLAY_PUT_BACK, /* dry_run: would be */
    REPLAY_OTHER_CODE,
    REPLAY_TOO_OLD,     /* dead-lettered before `since` */
    REPLAY_DONE_BEFORE, /* also: a second copy of one in this run */
    REPLAY_TIMES_OVER,  /* came back REPLAY_TIMES_MAX times */
    REPLAY_CUT,         /* its value was too large for the dead letter topic and is not whole */
    REPLAY_NOT_OURS,    /* no origin headers, or a topic this dispatcher does not read */
    REPLAY_REFUSED,     /* the origin topic refuses it: too large by now, or its partition is gone */
    REPLAY_VERDICTS
};

/* One dead letter as it is shown: no key, no value, no title. Texts live until the callback returns. */
struct replay_shown {
    enum replay_verdict verdict;
    int32_t dlq_partition;
    int64_t dlq_offset;
    const char *topic; /* of origin; "" when not known */
    int32_t partition;
    int64_t offset;
    const char *code, *field, *message;
};

struct replay_counts {
    int64_t by_verdict[REPLAY_VERDICTS];
    struct {
        char code[32];
        int64_t count; /* put back */
    } codes[REPLAY_CODES_MAX];
    size_t code_count; /* the last also counts what finds no place */
};

struct replay_setup {
    const struct topics_settings *topics;
    const struct db_settings *database;
    const struct config_pairs *kafka; /* group.id is among them */
    const char *code;                 /* NULL: every */
    int64_t since_us;                 /* of the dead letter's own timestamp; INT64_MIN: every */
    bool dry_run;
    void *context;
    void (*show)(void *context, const struct replay_shown *shown); /* NULL: not wanted */
};

/* Blocks until every record that was there at the start is handled. counts is filled whatever the status
 * says: what was done stays done. ST_RETRY: Kafka or the database was away, run it again; ST_STOP: a topic is
 * missing or forbidden; ST_FATAL. */
MUST_USE enum status replay_run(const struct replay_setup *setup, struct replay_counts *counts,
                                struct fault *fault);

#endif
