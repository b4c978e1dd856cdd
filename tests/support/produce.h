/* belfry-produce: realistic events and devices for the demo and the system tests, the same for the same seed.
 *
 *   belfry-produce --brokers HOST:PORT [--count N] [--devices N] … (produce.c's usage has all options)
 *
 * Contents are worked out from the seed and the record's number alone, so a duplicate is made by making its
 * original again. Kinds are spread evenly and come in exact shares: 1 % poison of 50,000 is 500 records, and
 * the variants of poison take turns, so each code is there at least 20 times.
 *
 * Duplicates take turns, too:
 *   same_batch       the record before it once more, on the same partition
 *   later_batch      an original of at least LATER_RECORDS ago, same partition
 *   other_run        another run_id, the same idempotency_key, same partition
 *   other_partition  an original once more on another partition (with one partition: later_batch)
 *
 * --ledger FILE: one JSON line for each record once Kafka has acknowledged it, in order of acknowledgement:
 *   {"slot":n,"partition":p,"offset":o,"kind":"event","workspace":…,"keys":[the expected key of each
 * recipient]} {…,"kind":"duplicate","duplicate":"other_run","of":slot of its
 * original,"workspace":…,"keys":[…]} {…,"kind":"poison","code":"field","field":"title"}
 * {…,"kind":"tombstone"}
 *   {"slot":n,"partition":p,"offset":o,"kind":"device","user":…,"token":…}
 *
 * The last line on stdout is the summary: one JSON object with what was planned and acknowledged. */
#ifndef BELFRY_TESTS_PRODUCE_H
#define BELFRY_TESTS_PRODUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

enum {
    LATER_RECORDS = 2500,
    WORKSPACES = 5, /* user n is in workspace n % WORKSPACES, and groups are within one */
    GROUP_MAX = 4,
    KEY_MAX_BYTES = 256
};

enum record_kind { KIND_EVENT, KIND_DUPLICATE, KIND_POISON, KIND_TOMBSTONE, KIND_DEVICE };
enum duplicate_kind { DUP_SAME_BATCH, DUP_LATER_BATCH, DUP_OTHER_RUN, DUP_OTHER_PARTITION, DUP_KINDS };

enum { UNWANTED_MAX = 16 };

struct produce_options {
    const char *unwanted[UNWANTED_MAX]; /* topics to delete, instead of everything else */
    size_t unwanted_count;
    const char *brokers, *topic_events, *topic_devices, *ledger;
    long count, devices, users, tombstones, partitions, rate;
    double duplicates, poison, same_timestamp, feed_only; /* percent */
    uint64_t seed;
    int64_t base_ms; /* the newest record's timestamp */
};

/* What the record of one slot is. */
struct planned {
    uint32_t slot, of; /* of: the original of a duplicate, else the slot itself */
    enum record_kind kind;
    enum duplicate_kind duplicate;
    uint32_t poison; /* variant */
    int32_t partition;
    int64_t timestamp_ms;
};

struct plan {
    const struct produce_options *options;
    uint32_t next;
    double owed_duplicates, owed_poison, owed_tombstones;
    uint32_t *originals, *with_key; /* slots */
    size_t original_count, with_key_count;
    uint32_t poison_count, duplicate_count;
    bool after_original; /* the record before this one was an original */
};

bool plan_init(struct plan *plan, const struct produce_options *options);
void plan_done(struct plan *plan);
void plan_next(struct plan *plan, struct planned *planned);
const char *duplicate_name(enum duplicate_kind kind);

/* A number that depends on these and nothing else. */
uint64_t produce_mix(uint64_t seed, uint64_t slot, uint64_t salt);

/* One valid event, as the original of this slot has it. */
struct contents {
    uint32_t users[GROUP_MAX];
    uint32_t user_count;
    bool has_key; /* an idempotency_key of its own */
};
void contents_of(const struct produce_options *options, uint32_t slot, struct contents *contents);
int32_t contents_partition(const struct produce_options *options, const struct contents *contents);
/* The record's value. retried: another run_id (for other_run). */
void contents_write(const struct produce_options *options, const struct planned *planned,
                    const struct contents *contents, struct buffer *value);
/* The key that belfry must claim for this recipient: design.md §1, worked out here on its own. */
void contents_key(const struct produce_options *options, const struct planned *planned,
                  const struct contents *contents, uint32_t recipient, char key[KEY_MAX_BYTES]);
void user_name(uint32_t user, char name[32]);
void workspace_name(uint32_t user, char name[32]);
void device_write(const struct produce_options *options, uint32_t device, struct buffer *value,
                  char token[96]);

/* Records that can never succeed. */
uint32_t poison_variants(void);
const char *poison_code(uint32_t variant);
const char *poison_field(uint32_t variant); /* "" unless the code is field */
void poison_write(uint32_t variant, uint32_t slot, struct buffer *value);

/* False, with a line on stderr for each, when one of them is still there. One that is not there is no fault.
 */
struct rd_kafka_s;
bool topics_delete(struct rd_kafka_s *kafka, const char *const *names, size_t count);

#endif
