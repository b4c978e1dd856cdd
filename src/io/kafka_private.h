/* What the kafka_*.c files share; the only file that includes librdkafka. */
#ifndef BELFRY_SRC_IO_KAFKA_PRIVATE_H
#define BELFRY_SRC_IO_KAFKA_PRIVATE_H

#include <librdkafka/rdkafka.h>
#include <pthread.h>

#include "io/kafka.h"

/* What consumer, producer and admin have in common: the first member of each. It is librdkafka's opaque. */
struct kafka_client {
    rd_kafka_t *rk;
    void (*on_notice)(void *context, const struct kafka_notice *notice);
    void *notice_context;
    struct fault fatal; /* once code is not "": the client is dead */
    rd_kafka_resp_err_t fatal_error;
    rd_kafka_resp_err_t last_error; /* the same error again within five seconds is not told again */
    int64_t last_error_at_ms;
    char last_text[256]; /* of the last error that says more than "down": why a request timed out */
    bool away;           /* all brokers were down when last heard of */
    struct metric_set *metrics;
    int wake_fd; /* an eventfd librdkafka writes to when its queue gets something; -1: none */
};

struct kafka_property {
    const char *name, *value;
};

/* Three layers, later ones win: defaults of ours, [kafka], what we own. Callbacks for log and errors are set.
 * ST_FATAL with EXIT_USAGE: a property is wrong. The caller owns *conf until rd_kafka_new. */
struct kafka_conf_layers {
    const struct kafka_property *defaults, *owned; /* each ends with a NULL name */
};
MUST_USE enum status kafka_conf_make(const struct kafka_client_options *options,
                                     const struct kafka_conf_layers *layers, rd_kafka_conf_t **conf,
                                     struct fault *fault);
MUST_USE enum status kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value,
                                    struct fault *fault);

/* Makes client->rk; conf is used up in any case. */
MUST_USE enum status kafka_client_open(struct kafka_client *client, rd_kafka_type_t type,
                                       rd_kafka_conf_t *conf, struct fault *fault);
/* Waits for it; when the time is up, false, and it goes on detached. */
bool kafka_thread_ends(pthread_t thread, int timeout_ms);
/* Destroys rk on a thread of its own, because it may hang for ever (a subscribed topic was deleted); after
 * timeout_ms that thread is left alone. NULL is fine. */
void kafka_client_end(rd_kafka_t *rk, int timeout_ms);

void kafka_client_notice(struct kafka_client *client, const struct kafka_notice *notice);
/* An error librdkafka reports outside any call: kept as fatal when it is, else a notice. */
void kafka_client_error(struct kafka_client *client, rd_kafka_resp_err_t error, const char *text,
                        const char *topic);
/* Registers the metrics of all clients of this process; metrics may be NULL. */
void kafka_client_count_in(struct kafka_client *client, struct metrics *metrics);
/* A broker answers: no longer away. */
void kafka_client_answers(struct kafka_client *client);
/* How many partitions wait for their seat, how often everything was paused, how much is fetched ahead. */
void kafka_client_show_unseated(const struct kafka_client *client, size_t count);
void kafka_client_count_pause(const struct kafka_client *client);
void kafka_client_show_fetched(const struct kafka_client *client, double bytes);
/* ST_OK, or ST_FATAL with the client's fault. */
MUST_USE enum status kafka_client_check(const struct kafka_client *client, struct fault *fault);

/* Makes the eventfd and has queue write to it. */
MUST_USE enum status kafka_client_wake_on(struct kafka_client *client, rd_kafka_queue_t *queue,
                                          struct fault *fault);
void kafka_client_drain(const struct kafka_client *client);

/* Fills the fault from an error; returns kafka_judge's status. text may be NULL. */
enum status kafka_fault(struct fault *fault, rd_kafka_resp_err_t error, const char *text);
/* The same for an error object, which is destroyed. */
enum status kafka_fault_error(struct fault *fault, rd_kafka_error_t *error);

/* Where the partitions of the list begin (edge RD_KAFKA_OFFSET_BEGINNING) or end (…_END), into offset. All of
 * them or an error; keeps to its timeout. */
rd_kafka_resp_err_t kafka_ask_edge(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list, int64_t edge,
                                   int timeout_ms);

/* ---- the consumer's files ------------------------------------------------------------------------ */

/* A partition of ours: from the moment on_assign gave it a start until on_revoke returned. */
struct kafka_held {
    int topic;
    int32_t partition;
    int64_t position;        /* of the next record to be given out */
    int64_t done, committed; /* -1: none yet */
};

struct kafka_consumer {
    struct kafka_client client; /* first: librdkafka's opaque */
    rd_kafka_queue_t *queue;    /* the consumer's */
    rd_kafka_queue_t *commits;  /* answers to commits */
    char *topics[KAFKA_TOPICS_MAX];
    bool missing[KAFKA_TOPICS_MAX];
    int64_t missing_asked_ms;
    size_t topic_count;
    int silent; /* statistics in a row that show no connection that is up */
    void *context;
    enum status (*on_assign)(void *context, struct kafka_seat *seats, size_t count, struct fault *fault);
    void (*on_revoke)(void *context, const struct kafka_seat *seats, size_t count, bool lost);
    struct kafka_held *held; /* sorted by topic, partition */
    size_t held_count, held_last;
    enum status seat_status; /* of on_assign, until poll has told it */
    struct fault seat_fault;
    /* Assigned and paused: their brokers have not said yet where they begin (kafka_seating.c). */
    struct kafka_seat *waiting;
    size_t waiting_count;
    int64_t waiting_ask_ms; /* when the next round is due */
    int waiting_pause_ms;
    unsigned waiting_turn;           /* counts the rounds */
    rd_kafka_resp_err_t waiting_why; /* the last error one of them gave */
    bool commit_under_way, commit_owed, paused, closing, stuck, reseat;
    int64_t commit_again_ms; /* not before, after one that failed */
};

struct kafka_held *kafka_held_find(struct kafka_consumer *consumer, int topic, int32_t partition);
/* False: too many, or out of memory; nothing is added. */
bool kafka_held_add(struct kafka_consumer *consumer, const struct kafka_seat *seats, size_t count);
void kafka_held_remove(struct kafka_consumer *consumer, const struct kafka_seat *seats, size_t count);
/* Seeks and waits for it. */
enum status kafka_held_seek_list(struct kafka_consumer *consumer, rd_kafka_topic_partition_list_t *list,
                                 struct fault *fault);
int kafka_topic_find(const struct kafka_consumer *consumer, const char *name);
/* Says it once: missing, or found again. topic below 0 is ignored. */
void kafka_topic_tell(struct kafka_consumer *consumer, int topic, bool missing, const char *text);
/* Commits what a commit under way, or one that failed, left over: called when there is nothing else to do. */
void kafka_held_commit_owed(struct kafka_consumer *consumer);
/* Asks where the seats begin and end, for a few seconds at most, and seats those that answered: *seated of
 * them, in front. The others wait. ST_OK also when none answered; else none is seated. */
MUST_USE enum status kafka_seating_begin(struct kafka_consumer *consumer, struct kafka_seat *seats,
                                         size_t count, size_t *seated, struct fault *fault);
/* A round for those that wait, when it is due; what it meets is left in seat_status. */
void kafka_seating_again(struct kafka_consumer *consumer);
/* Pauses them: called once they are assigned. */
void kafka_seating_pause(const struct kafka_consumer *consumer);
/* These went away: they no longer wait. */
void kafka_seating_drop(struct kafka_consumer *consumer, const struct kafka_seat *seats, size_t count);
/* librdkafka's rebalance callback; also called while closing. */
void kafka_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t error, rd_kafka_topic_partition_list_t *list,
                     void *opaque);

#endif
