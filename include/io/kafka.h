/* Kafka: a consumer of a group, a producer, and the few questions an administrator asks. librdkafka's types
 * stay in src/io (kafka_private.h alone includes it).
 *
 * Each handle is used by one thread, and every callback runs on that thread, inside a call of this header.
 * Nothing here blocks longer than the time given to it, closing included.
 *
 * Statuses (kafka_judge, the one table): ST_RETRY the cluster is away and the client tries on by itself ·
 * ST_STOP a topic is missing or forbidden: not ready, ask again slowly · ST_REJECT this record never fits ·
 * ST_FATAL the client is dead (fenced, unauthorised): leave with EXIT_KAFKA, or with EXIT_USAGE when a
 * property is wrong. fault.code is librdkafka's error name, e.g. "TOPIC_AUTHORIZATION_FAILED". */
#ifndef BELFRY_IO_KAFKA_H
#define BELFRY_IO_KAFKA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/metrics.h"
#include "base/span.h"
#include "base/status.h"

enum { KAFKA_TOPICS_MAX = 8, KAFKA_HEADERS_MAX = 64, KAFKA_PARTITIONS_MAX = 4096 };

/* One record header. value.at is NULL when the value is null. */
struct kafka_header {
    struct span name, value;
};

/* What a client has to say beside its answers; the loop logs it. Nothing in it is a secret. */
enum kafka_notice_kind {
    KAFKA_NOTICE_LOG,           /* a line of librdkafka's log */
    KAFKA_NOTICE_ERROR,         /* brokers away and the like; the client goes on */
    KAFKA_NOTICE_TOPIC_MISSING, /* once, until it is found */
    KAFKA_NOTICE_TOPIC_FOUND,
    KAFKA_NOTICE_UNSEATED, /* a broker does not say where partitions of ours begin; once, until all are seated
                            */
    KAFKA_NOTICE_SEATED,
    KAFKA_NOTICE_COMMIT_FAILED, /* the group's offsets only; ours are in Postgres */
    KAFKA_NOTICE_REBUILT /* the producer met a fatal sequence error: made anew, what is owed sent again */
};

struct kafka_notice {
    enum kafka_notice_kind kind;
    int severity;     /* syslog's: 3 error, 4 warning, 6 info, 7 debug */
    const char *code; /* librdkafka's error name or log facility */
    const char *text;
    const char *topic; /* "" when none */
};
/* An on_notice for loops: one line each in the log; notice_context is the client's name, a text that lives
 * on. */
void kafka_notice_log(void *context, const struct kafka_notice *notice);

struct kafka_client_options {
    const struct config_pairs *properties; /* [kafka]; those we own are refused */
    const char *client_name;               /* client.id is this, or [kafka] client.id, made unique */
    void (*on_notice)(void *context, const struct kafka_notice *notice); /* NULL: not wanted */
    void *notice_context;
    struct metrics *metrics; /* all clients of the process count together; NULL: none */
};

/* ---- consumer ------------------------------------------------------------------------------------------ */

/* A partition on its way into our hands. on_assign reads the offsets and writes start. */
struct kafka_seat {
    int topic; /* place in options.topics */
    int32_t partition;
    int64_t committed; /* the group's offset in Kafka; -1: none */
    int64_t low, high; /* watermarks: the first offset there is, and the one the next record will get */
    int64_t start;     /* out; low when left alone */
};

struct kafka_consumer_options {
    struct kafka_client_options client;
    const char *group; /* "": [kafka] group.id */
    const char *const *topics;
    size_t topic_count; /* 1 … KAFKA_TOPICS_MAX */
    void *context;      /* of the three below */
    /* Partitions come (with the cooperative protocol: those added; count may be 0). One whose broker does not
     * say where it begins is left out and comes in a call of its own, later. May block for seconds:
     * heartbeats go on. Not ST_OK: nothing is taken; the consumer leaves the group, kafka_consumer_poll
     * answers this status, and kafka_consumer_join goes back in. */
    enum status (*on_assign)(void *context, struct kafka_seat *seats, size_t count, struct fault *fault);
    /* Partitions go. lost: others may have them already; commit nothing. Else: still ours until this returns.
     */
    void (*on_revoke)(void *context, const struct kafka_seat *seats, size_t count, bool lost);
};

/* A record that was taken; everything in it lives until kafka_record_release. */
struct kafka_record {
    int topic; /* place in options.topics */
    int32_t partition;
    int64_t offset;
    int64_t timestamp_ms; /* -1: none */
    bool key_null, value_null;
    struct span key, value;
    void *handle; /* NULL: nothing to release, and no headers (tests) */
};

struct kafka_consumer;

/* Makes the client and joins the group; does not wait for brokers. ST_FATAL with EXIT_USAGE: a property is
 * wrong (fault.field names it). Copies the options but for the callbacks' contexts. */
MUST_USE enum status kafka_consumer_open(const struct kafka_consumer_options *options,
                                         struct kafka_consumer **consumer, struct fault *fault);
/* Leaves the group (on_revoke is called for what is held) and ends the client, all within timeout_ms; a
 * client that does not end is left to the end of the process. Release the records first. NULL is fine. */
void kafka_consumer_close(struct kafka_consumer *consumer, int timeout_ms);

/* Serves callbacks and takes one record. *got false: none within timeout_ms. Anything but ST_OK: the fault of
 * on_assign, or ST_FATAL. */
MUST_USE enum status kafka_consumer_poll(struct kafka_consumer *consumer, int timeout_ms,
                                         struct kafka_record *record, bool *got, struct fault *fault);
void kafka_record_release(struct kafka_record *record);
/* The index-th header in the order they came; false: there is none. */
MUST_USE bool kafka_record_header(const struct kafka_record *record, size_t index,
                                  struct kafka_header *header);
/* The last header of that name. */
MUST_USE bool kafka_record_find_header(const struct kafka_record *record, const char *name,
                                       struct span *value);

/* For a poll(2) of the caller's: becomes readable when there may be something to poll; kafka_consumer_poll
 * with timeout 0 until *got is false, then wait again. Never wait on it without a time limit. */
int kafka_consumer_fd(const struct kafka_consumer *consumer);

/* The next record of that partition will be the one at offset. Forgets what was marked done for it. */
MUST_USE enum status kafka_consumer_seek(struct kafka_consumer *consumer, int topic, int32_t partition,
                                         int64_t offset, struct fault *fault);
/* Every record below next_offset is done. Only ever rises between seeks; a partition not held is ignored. */
void kafka_consumer_done(struct kafka_consumer *consumer, int topic, int32_t partition, int64_t next_offset);
/* Sends to the group's coordinator what is done and not yet committed. timeout_ms 0: does not wait, and while
 * one is under way leaves it to the next idle kafka_consumer_poll, as it does with what failed. A failure is
 * a notice: Postgres has the offsets that count. */
void kafka_consumer_commit(struct kafka_consumer *consumer, int timeout_ms);

/* Takes no records, keeps its partitions and its place in the group; go on polling. Costs the prefetch: not
 * for waits under a second. Both may be called twice; partitions that come while paused are paused too. */
void kafka_consumer_pause(struct kafka_consumer *consumer);
void kafka_consumer_resume(struct kafka_consumer *consumer);
bool kafka_consumer_is_paused(const struct kafka_consumer *consumer);

/* Leave the group, keep the client: partitions are revoked by the next polls. */
void kafka_consumer_leave(struct kafka_consumer *consumer);
/* Join (again). */
MUST_USE enum status kafka_consumer_join(struct kafka_consumer *consumer, struct fault *fault);
/* Leave and join again: every partition is seated anew. */
MUST_USE enum status kafka_consumer_rejoin(struct kafka_consumer *consumer, struct fault *fault);

/* The watermarks as last heard, without asking: the lag is high − position. -1: unknown. */
void kafka_consumer_watermarks(struct kafka_consumer *consumer, int topic, int32_t partition, int64_t *low,
                               int64_t *high);
/* Asks for them anew (low and high of the seat); blocks for a second at most. */
MUST_USE enum status kafka_consumer_ask_watermarks(struct kafka_consumer *consumer, struct kafka_seat *seat,
                                                   struct fault *fault);
/* Partitions of ours that are not read yet, because their broker does not say where they begin and end; they
 * are asked for again by kafka_consumer_poll, which then may block for a second. */
size_t kafka_consumer_unseated(const struct kafka_consumer *consumer);
/* True while a subscribed topic is missing; name it. */
bool kafka_consumer_topic_missing(const struct kafka_consumer *consumer, const char **topic);
/* Why nothing can be read, for /readyz; false: nothing is in the way. */
bool kafka_consumer_trouble(const struct kafka_consumer *consumer, char *text, size_t size);

/* ---- where a partition starts (design.md §1 point 4) ----------------------------------------------------
 */

enum kafka_start_why {
    KAFKA_START_BOTH,      /* both known: the smaller */
    KAFKA_START_KAFKA_NEW, /* Kafka's missing: the low watermark (a topic made anew looks like this) */
    KAFKA_START_TABLE_NEW, /* the table's missing: Kafka's */
    KAFKA_START_EARLIEST,  /* both missing */
    KAFKA_START_BEYOND     /* the table's is above the high watermark: the low one; warn */
};

struct kafka_start {
    int64_t offset;
    int64_t lost; /* records between what was wanted and the low watermark: gone; log and count */
    enum kafka_start_why why;
};

/* table -1: no row, or a row nobody has moved. committed, low and high as in the seat. */
struct kafka_start kafka_start_of(int64_t table, const struct kafka_seat *seat);

/* ---- producer ------------------------------------------------------------------------------------------ */

struct kafka_message {
    const char *topic;
    int32_t partition; /* -1: by key (murmur2, as the Java client) */
    bool key_null, value_null;
    struct span key, value;
    const struct kafka_header *headers;
    size_t header_count;  /* at most KAFKA_HEADERS_MAX */
    int64_t opaque;       /* comes back with the delivery */
    int64_t timestamp_ms; /* -1: now */
};

struct kafka_producer_options {
    struct kafka_client_options client;
    size_t records_max; /* owed at most: sent and not yet answered */
    size_t bytes_max;
    void *context;
    /* Each message once: ST_OK acknowledged by all in-sync replicas · ST_REJECT never (fault.code
     * "MSG_SIZE_TOO_LARGE"…) · ST_STOP its topic is missing or forbidden: yours again. Never ST_RETRY: what
     * failed for the moment is sent again inside. fault is empty for ST_OK. */
    void (*on_delivery)(void *context, int64_t opaque, enum status status, const struct fault *fault);
};

struct kafka_producer;

/* Idempotent, acks=all. Does not wait for brokers. ST_FATAL: a property is wrong. */
MUST_USE enum status kafka_producer_open(const struct kafka_producer_options *options,
                                         struct kafka_producer **producer, struct fault *fault);
/* Ends the client within timeout_ms; what is still owed is dropped without a delivery: flush first. */
void kafka_producer_close(struct kafka_producer *producer, int timeout_ms);

/* Copies the message and sends it. ST_RETRY "full": poll first. ST_REJECT: larger than message.max.bytes or
 * bytes_max (no delivery follows). ST_FATAL. */
MUST_USE enum status kafka_producer_send(struct kafka_producer *producer, const struct kafka_message *message,
                                         struct fault *fault);
/* Serves deliveries; waits at most timeout_ms for the first. ST_FATAL: unauthorised and the like. */
MUST_USE enum status kafka_producer_poll(struct kafka_producer *producer, int timeout_ms,
                                         struct fault *fault);
/* Polls until nothing is owed. ST_RETRY: something still is. */
MUST_USE enum status kafka_producer_flush(struct kafka_producer *producer, int timeout_ms,
                                          struct fault *fault);
size_t kafka_producer_owed(const struct kafka_producer *producer);
/* Becomes readable when there may be something to poll; as kafka_consumer_fd. */
int kafka_producer_fd(const struct kafka_producer *producer);

/* ---- admin --------------------------------------------------------------------------------------------- */

struct kafka_admin;

enum { KAFKA_ADMIN_TIMEOUT_MS = 5000 }; /* of every call: a mock cluster never answers some of them */

MUST_USE enum status kafka_admin_open(const struct kafka_client_options *options, struct kafka_admin **admin,
                                      struct fault *fault);
void kafka_admin_close(struct kafka_admin *admin);

struct kafka_topic_spec {
    const char *name;
    int partitions;
    int replication; /* -1: the broker's default */
    const struct kafka_topic_config {
        const char *name, *value;
    } * config;
    size_t config_count;
};

/* *created false: it was there already; nothing is changed then. ST_RETRY: no answer. */
MUST_USE enum status kafka_admin_create_topic(struct kafka_admin *admin, const struct kafka_topic_spec *spec,
                                              bool *created, struct fault *fault);
enum { KAFKA_CONFIG_VALUE_MAX = 128 };
struct kafka_config_value {
    const char *name;                   /* in: "retention.ms" */
    char value[KAFKA_CONFIG_VALUE_MAX]; /* out; "" when the topic has none of that name */
};
/* ST_RETRY: no answer in time · ST_STOP: the topic is missing or the answer forbidden. */
MUST_USE enum status kafka_admin_topic_config(struct kafka_admin *admin, const char *topic,
                                              struct kafka_config_value *values, size_t count,
                                              struct fault *fault);
/* How many partitions; never creates the topic. ST_STOP: it is missing. */
MUST_USE enum status kafka_admin_partitions(struct kafka_admin *admin, const char *topic, int *count,
                                            struct fault *fault);
struct kafka_watermarks {
    int64_t low, high; /* the first offset there is, and the one the next record will get */
};
MUST_USE enum status kafka_admin_watermarks(struct kafka_admin *admin, const char *topic, int32_t partition,
                                            struct kafka_watermarks *marks, struct fault *fault);
struct kafka_group_offset {
    const char *topic;
    int32_t partition;
    int64_t offset;
};

/* Sets a group's offset. ST_STOP: the group has members that hold the topic; stop them first. */
MUST_USE enum status kafka_admin_set_offset(struct kafka_admin *admin, const char *group,
                                            const struct kafka_group_offset *offset, struct fault *fault);

/* ---- error to status: the one table ----------------------------------------------------------------------
 */

/* code is librdkafka's number. */
enum status kafka_judge(int code);

#endif
