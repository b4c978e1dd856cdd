/* The world of a system test: a database of its own, topics of its own, the real binaries as children, the
 * simulator. Everything is named after the test, lives in a folder of its own below the build folder (logs
 * stay there for reading) and is gone at world_close. Any failure inside the harness ends the test by
 * cr_assert.
 *
 *   struct world w;
 *   world_open(&w, "ing_01");
 *   world_database(&w);                       create and migrate
 *   world_topics(&w, 4);                      events, devices, receipts, their dead letters
 *   world_simulator(&w, NULL);                provider and account service
 *   struct child *d = world_dispatcher(&w, "[run]\nroles = ingest\n");   started, ready
 *   world_produce(&w, w.events, 0, "u1", "{…}");
 *   world_wait_count(&w, 1, "SELECT count(*) FROM notifications");
 *   child_stop(d);                            SIGTERM, exit code checked to be 0
 *   world_check_books(&w);
 *   world_close(&w);
 */
#ifndef BELFRY_TESTS_HARNESS_H
#define BELFRY_TESTS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { WORLD_CHILDREN_MAX = 160, WORLD_PATH_MAX = 512, WORLD_WAIT_S = 60 };

struct child {
    pid_t pid; /* 0: not running */
    char name[64];
    char log[WORLD_PATH_MAX];    /* its stderr */
    char output[WORLD_PATH_MAX]; /* its stdout */
    char admin[64];              /* host:port, "" when it has none */
    char ini[WORLD_PATH_MAX];    /* of world_dispatcher and its like */
    int exit_code;               /* after it ended; 128 + signal when killed */
};

struct world {
    char name[64];
    char folder[WORLD_PATH_MAX];
    char superuser_uri[256]; /* of the shared server, database postgres */
    char brokers[128];
    char database[96];
    char uri[256]; /* of the test's database, as superuser */
    char events[96], devices[96], receipts[96], dlq[96], receipts_dlq[96];
    char group[96], reconciler_group[96];
    char provider_url[128];      /* of the simulator */
    char record[WORLD_PATH_MAX]; /* the simulator's record of accepted messages */
    void *db;                    /* PGconn of the superuser in the test's database */
    void *producer;              /* rd_kafka_t, made when first used */
    struct child children[WORLD_CHILDREN_MAX];
    int child_count;
};

/* -- the world ----------------------------------------------------------------------------------------------
 */
void world_open(struct world *w, const char *name);
void world_close(struct world *w); /* kills what still runs, drops database and topics */
void world_database(struct world *w);
/* A table that is dear to fill, for two tests: the first leaves its database under a name of the test's, the
 * second takes it up and drops it at its end. Taken up: false, and nothing done, when there is none. */
void world_leave_database(struct world *w, const char *as);
bool world_take_up_database(struct world *w, const char *as);
void world_use_server(struct world *w,
                      const char *superuser_uri);             /* before world_database: another Postgres */
void world_use_brokers(struct world *w, const char *brokers); /* before world_topics: another Kafka */
/* tests/support/<script> (postgres or kafka) for a server of the test's own, in a folder of the world: verb
 * start, stop, restart; mode as the script has it, or NULL. Started, it is the one the world uses; it ends
 * with the test's process at the latest. */
void world_own_server(struct world *w, const char *script, const char *verb, const char *mode);
/* A hot standby of that own Postgres, streaming from it, as it stands now; ends as it does. Returns its port.
 */
int world_standby(struct world *w);
void world_topics(struct world *w, int partitions);
struct child *world_simulator(struct world *w,
                              const char *const *extra_arguments /* NULL-terminated or NULL */);
/* A URI of the test's database for one of the belfry roles. Static text, good until the next call. */
const char *world_role_uri(struct world *w, const char *role);

/* -- children -----------------------------------------------------------------------------------------------
 */
/* Starts build/…/<binary> (a path inside the build folder, or absolute). argv ends with NULL and has no
 * argv[0]. environment: "NAME=value" texts ended by NULL, or NULL. The child dies with the test. */
struct child *child_start(struct world *w, const char *binary, const char *const *argv,
                          const char *const *environment);
void child_signal(struct child *child, int number);
int child_wait(struct child *child, int seconds); /* its exit code; fails the test when it does not end */
bool child_running(struct child *child);
void child_stop(struct child *child); /* SIGTERM; must exit with 0 */
void child_kill(struct child *child); /* SIGKILL */
bool child_log_has(struct child *child, const char *text);
void child_wait_log(struct child *child, const char *text, int seconds);
int64_t child_rss_kib(const struct child *child);                 /* resident memory */
int child_log_lines(const struct child *child, const char *text); /* of its log that hold text */
/* Runs to the end; stdout (cut to size) into output when given; returns the exit code. */
int world_run(struct world *w, const char *binary, const char *const *argv, char *output, size_t size);

/* The three binaries with an ini made for the test; `extra` is ini text laid over it (the same key
 * replaces, another is added), or NULL. They come back ready (/readyz answers 200). The _crash form runs the
 * binary with crash points and BELFRY_CRASH=at, and does not wait for ready when at is given. */
struct child *world_dispatcher(struct world *w, const char *extra);
struct child *world_dispatcher_crash(struct world *w, const char *extra, const char *at);
struct child *world_reconciler(struct world *w, const char *extra);
struct child *world_reconciler_crash(struct world *w, const char *extra, const char *at);
struct child *world_reader(struct world *w, const char *extra, char *base_url /* [64] */);
/* Writes the ini only and says where: for --check-config, sub-commands and several starts. */
void world_write_dispatcher_ini(struct world *w, const char *extra, char *path /* [WORLD_PATH_MAX] */);
void world_write_reconciler_ini(struct world *w, const char *extra, char *path);
void world_write_reader_ini(struct world *w, const char *extra, char *path);
/* belfry-reconciler --audit, with `extra` laid over its ini: its exit code; output gets what it printed. */
int world_audit(struct world *w, const char *extra, char *output, size_t size);
void child_wait_ready(struct child *child, int seconds);
/* A figure of /metrics by its whole name with labels; -1: none. */
double child_metric(struct child *child, const char *name);
int world_free_port(void);

/* -- the database -------------------------------------------------------------------------------------------
 */
void world_exec(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t world_count(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first column of the first row as text; "" for NULL or no row. */
void world_text(struct world *w, char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Asks again until the count is expected; fails the test after WORLD_WAIT_S, with the last count. */
void world_wait_count(struct world *w, int64_t expected, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The three balances of belfry_books: printed, and each must be ok. */
void world_check_books(struct world *w);
/* Reconnects the harness' own connection: after a test restarted the server. */
void world_reconnect(struct world *w);
/* The harness' own connection is this role's from now on (NULL: the superuser's again), with its settings. */
void world_become(struct world *w, const char *role);

/* -- Kafka --------------------------------------------------------------------------------------------------
 */
struct world_header {
    const char *name, *value;
};
/* One record, acknowledged when it returns. key and value may be NULL; partition -1: by key. */
void world_produce(struct world *w, const char *topic, int partition, const char *key, const char *value);
void world_produce_bytes(struct world *w, const char *topic, int partition, const char *key,
                         const void *value, size_t bytes, const struct world_header *headers,
                         int header_count, int64_t timestamp_ms);
/* The same without waiting; world_flush waits for all. */
void world_produce_fast(struct world *w, const char *topic, int partition, const char *key,
                        const char *value);
void world_flush(struct world *w);
int64_t world_topic_records(struct world *w, const char *topic); /* Σ high − low watermarks */
void world_delete_topic(struct world *w, const char *topic);
void world_create_topic(struct world *w, const char *topic, int partitions);
struct world_record {
    int partition;
    int64_t offset;
    const char *key, *value; /* NUL-terminated copies; NULL when null */
    size_t value_bytes;
    const struct world_header *headers;
    int header_count;
};
/* Every record now in the topic, partition by partition. */
void world_read_topic(struct world *w, const char *topic,
                      void (*each)(void *context, const struct world_record *), void *context);
/* Waits until the group's next_offset in partition_offsets equals the end of every partition of the topic. */
void world_wait_drained(struct world *w, const char *group, const char *topic, int seconds);
/* Records the group has not committed in Kafka yet; waits up to 10 s for it to fall to 0. */
int64_t world_lag(struct world *w, const char *group, const char *topic);
/* Registers a device through the devices topic; world_wait_drained on w->devices tells when it is in. */
void world_register(struct world *w, const char *user, const char *token);

/* -- HTTP and the simulator
 * ---------------------------------------------------------------------------------- */
struct world_reply {
    long status;   /* 0: no answer */
    char *body;    /* NUL-terminated; free with world_reply_done */
    char *headers; /* all header lines */
    size_t body_bytes;
};
void world_http(const char *method, const char *url, const char *const *headers, const char *body,
                struct world_reply *reply);
struct world_request {
    const char *method, *url;
    const char *const *headers; /* ends with NULL, or NULL */
    const char *body;           /* or NULL */
};
/* The same on a connection that stays open between calls: *kept begins as NULL and ends by world_http_leave.
 */
void world_http_kept(void **kept, const struct world_request *request, struct world_reply *reply);
void world_http_leave(void **kept);
void world_reply_done(struct world_reply *reply);
/* POST /control/script with one rule or an array (see simulator.h), POST /control/reset, one figure of GET
 * /control/stats. */
void simulator_script(struct world *w, const char *json);
void simulator_reset(struct world *w);
/* group: "send", "receipts", "preferences"; name: "calls", "accepted", "largest" … */
int64_t simulator_stat(struct world *w, const char *group, const char *name);
/* Makes count tickets whose receipts are ok, as if so many messages had been accepted. The n-th (from 0, of a
 * simulator that had none) has the id printf("%08x-0000-7000-8000-%012x", run, n); returns run. */
uint32_t simulator_tickets(struct world *w, int64_t count);
/* Lines in the record of accepted messages that hold text (NULL: all). */
int64_t simulator_accepted(struct world *w, const char *text);

/* -- a link that can be made to fail
 * ------------------------------------------------------------------------- */
/* belfry-proxy (proxy.c says its commands) in front of 127.0.0.1:to_port; address is where it listens. */
struct child *world_proxy(struct world *w, int to_port, char *address /* [64] */);
void proxy_say(const char *address, const char *command);

/* -- small things
 * -------------------------------------------------------------------------------------------- */
int64_t world_now_ms(void);
/* main() of a program whose tests take options of their own, each with a value: they reach the test's process
 * in the environment. */
struct world_option {
    const char *flag, *variable;
};
int world_main(int argc, char **argv, const struct world_option *options, size_t count);
long world_asked_for(const char *variable, long fallback);
void world_sleep_ms(int ms);
/* Polls done() every 20 ms; fails the test after seconds, naming what. */
void world_wait(const char *what, int seconds, bool (*done)(void *context), void *context);
/* True when any file below the world's folder that ends in .log or .out holds text. */
bool world_logs_have(struct world *w, const char *text);

#endif
