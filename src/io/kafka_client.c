/* What consumer, producer and admin share: properties in, a librdkafka handle out; its log, its errors and
 * its end. Log lines and errors come through the client's own queue, so every callback runs on the caller's
 * thread. A client that met a fatal error stays dead: every later call says so. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "kafka_private.h"

enum { ERROR_TEXT_MAX = 512, SAME_ERROR_MS = 5000, CLIENT_ID_MAX = 200 };

/* ---- faults -------------------------------------------------------------------------------------------- */

enum status kafka_fault(struct fault *fault, rd_kafka_resp_err_t error, const char *text)
{
    enum status status = kafka_judge(error);
    fault_set(fault, rd_kafka_err2name(error), "%s", text != NULL ? text : rd_kafka_err2str(error));
    if (status == ST_FATAL && fault != NULL) {
        fault->exit_code = EXIT_KAFKA;
    }
    return status;
}

enum status kafka_fault_error(struct fault *fault, rd_kafka_error_t *error)
{
    enum status status = kafka_fault(fault, rd_kafka_error_code(error), rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return status;
}

/* ---- notices ------------------------------------------------------------------------------------------- */

void kafka_client_notice(struct kafka_client *client, const struct kafka_notice *notice)
{
    if (client->on_notice != NULL) {
        client->on_notice(client->notice_context, notice);
    }
}

static void client_die(struct kafka_client *client, rd_kafka_resp_err_t error, const char *text)
{
    char reason[ERROR_TEXT_MAX];
    if (error == RD_KAFKA_RESP_ERR__FATAL) {
        rd_kafka_resp_err_t cause = rd_kafka_fatal_error(client->rk, reason, sizeof reason);
        if (cause != RD_KAFKA_RESP_ERR_NO_ERROR) {
            error = cause;
            text = reason;
        }
    }
    if (client->fatal.code[0] == '\0') {
        (void)kafka_fault(&client->fatal, error, text);
        client->fatal.exit_code = EXIT_KAFKA;
        client->fatal_error = error;
    }
}

enum { M_RECONNECTS, M_ERRORS, M_UNSEATED, M_PAUSES, M_FETCHED, METRICS };

static const struct metric_row metric_rows[METRICS] = {
    [M_RECONNECTS] = {.name = "belfry_kafka_reconnects_total",
                      .help = "Times that a broker answered again after all of them were away."},
    [M_ERRORS] = {.name = "belfry_kafka_errors_total",
                  .help =
                      "Errors the Kafka clients reported beside their answers; they go on by themselves."},
    [M_UNSEATED] = {.name = "belfry_kafka_partitions_unseated",
                    .help = "Partitions given to us whose broker does not say where they begin.",
                    .type = METRIC_GAUGE},
    [M_PAUSES] = {.name = "belfry_kafka_pauses_total",
                  .help = "Times that all partitions were paused, because what was taken could not be stored "
                          "for a second."},
    [M_FETCHED] = {.name = "belfry_kafka_prefetched_bytes",
                   .help = "Keys and values the consumer holds ahead of us, by librdkafka's statistics.",
                   .type = METRIC_GAUGE},
};

void kafka_client_count_in(struct kafka_client *client, struct metrics *metrics)
{
    client->metrics = metrics_add(metrics, metric_rows, METRICS);
}

void kafka_client_show_unseated(const struct kafka_client *client, size_t count)
{
    metric_put(client->metrics, M_UNSEATED, 0, (double)count);
}

void kafka_client_count_pause(const struct kafka_client *client)
{
    metric_add(client->metrics, M_PAUSES, 0, 1);
}

void kafka_client_show_fetched(const struct kafka_client *client, double bytes)
{
    metric_put(client->metrics, M_FETCHED, 0, bytes);
}

void kafka_client_answers(struct kafka_client *client)
{
    if (client->away) {
        metric_add(client->metrics, M_RECONNECTS, 0, 1);
    }
    client->away = false;
}

void kafka_client_error(struct kafka_client *client, rd_kafka_resp_err_t error, const char *text,
                        const char *topic)
{
    if (kafka_judge(error) == ST_FATAL) {
        client_die(client, error, text);
        return;
    }
    metric_add(client->metrics, M_ERRORS, 0, 1);
    client->away = client->away || error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
    if (error != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        (void)snprintf(client->last_text, sizeof client->last_text, "%s", text);
    int64_t now_ms = clock_monotonic_ms(&clock_system);
    if (error == client->last_error && now_ms - client->last_error_at_ms < SAME_ERROR_MS) {
        return;
    }
    client->last_error = error;
    client->last_error_at_ms = now_ms;
    kafka_client_notice(client, &(struct kafka_notice){.kind = KAFKA_NOTICE_ERROR,
                                                       .severity = 4,
                                                       .code = rd_kafka_err2name(error),
                                                       .text = text,
                                                       .topic = topic});
}

enum status kafka_client_check(const struct kafka_client *client, struct fault *fault)
{
    if (client->fatal.code[0] == '\0') {
        return ST_OK;
    }
    if (fault != NULL) {
        *fault = client->fatal;
    }
    return ST_FATAL;
}

static void on_error(rd_kafka_t *rk, int error, const char *reason, void *opaque)
{
    (void)rk;
    kafka_client_error(opaque, error, reason, "");
}

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    struct kafka_client *client = rd_kafka_opaque(rk);
    /* [kafka] serves consumer and producer alike: that a property is of the other one is no warning. */
    if (strcmp(facility, "CONFWARN") == 0 && strstr(text, "will be ignored by this") != NULL) {
        return;
    }
    if (strcmp(facility, "FAIL") == 0 || strcmp(facility, "ERROR") == 0) {
        return; /* on_error hears the same */
    }
    kafka_client_notice(
        client,
        &(struct kafka_notice){
            .kind = KAFKA_NOTICE_LOG, .severity = level, .code = facility, .text = text, .topic = ""});
}

/* ---- properties ---------------------------------------------------------------------------------------- */

/* librdkafka's own message may quote the value. */
static bool is_secret(const char *name)
{
    static const char *const words[] = {"password", "secret", "pem", "key", "jaas", "oauthbearer"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strstr(name, words[i]) != NULL) {
            return true;
        }
    }
    return false;
}

enum status kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value, struct fault *fault)
{
    char text[ERROR_TEXT_MAX];
    if (rd_kafka_conf_set(conf, name, value, text, sizeof text) == RD_KAFKA_CONF_OK) {
        return ST_OK;
    }
    fault_set(fault, "kafka_property", "%s", is_secret(name) ? "the value is refused" : text);
    fault_set_field(fault, name);
    if (fault != NULL) {
        fault->exit_code = EXIT_USAGE;
    }
    return ST_FATAL;
}

static enum status set_all(rd_kafka_conf_t *conf, const struct kafka_property *properties,
                           struct fault *fault)
{
    for (; properties != NULL && properties->name != NULL; properties++) {
        enum status status = kafka_conf_set(conf, properties->name, properties->value, fault);
        if (status != ST_OK) {
            return status;
        }
    }
    return ST_OK;
}

/* Members of a group whose client.id collide make cooperative assignors loop at 100 % (below 2.6.1). */
static enum status set_client_id(rd_kafka_conf_t *conf, const char *base, struct fault *fault)
{
    unsigned number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        number = (unsigned)getpid();
    }
    char id[CLIENT_ID_MAX];
    (void)snprintf(id, sizeof id, "%.160s-%08x", base, number);
    return kafka_conf_set(conf, "client.id", id, fault);
}

enum status kafka_conf_make(const struct kafka_client_options *options,
                            const struct kafka_conf_layers *layers, rd_kafka_conf_t **conf,
                            struct fault *fault)
{
    rd_kafka_conf_t *made = rd_kafka_conf_new();
    enum status status = set_all(made, layers->defaults, fault);
    const struct config_pairs *given = options->properties;
    const char *client_id = options->client_name;
    for (size_t i = 0; status == ST_OK && given != NULL && i < given->count; i++) {
        status = kafka_conf_set(made, given->pairs[i].key, given->pairs[i].value, fault);
        if (strcmp(given->pairs[i].key, "client.id") == 0) {
            client_id = given->pairs[i].value;
        }
    }
    if (status == ST_OK) {
        status = set_all(made, layers->owned, fault);
    }
    if (status == ST_OK) {
        status = set_client_id(made, client_id, fault);
    }
    if (status == ST_OK) {
        status = kafka_conf_set(made, "log.queue", "true", fault);
    }
    if (status != ST_OK) {
        rd_kafka_conf_destroy(made);
        return status;
    }
    rd_kafka_conf_set_error_cb(made, on_error);
    rd_kafka_conf_set_log_cb(made, on_log);
    *conf = made;
    return ST_OK;
}

/* ---- beginning and end --------------------------------------------------------------------------------- */

enum status kafka_client_open(struct kafka_client *client, rd_kafka_type_t type, rd_kafka_conf_t *conf,
                              struct fault *fault)
{
    char text[ERROR_TEXT_MAX];
    rd_kafka_conf_set_opaque(conf, client);
    client->rk = rd_kafka_new(type, conf, text, sizeof text);
    if (client->rk == NULL) {
        rd_kafka_conf_destroy(conf);
        fault_set(fault, "kafka_client", "%s", text);
        if (fault != NULL) {
            fault->exit_code = EXIT_USAGE;
        }
        return ST_FATAL;
    }
    (void)rd_kafka_set_log_queue(client->rk, NULL);
    return ST_OK;
}

static void *end_in_peace(void *rk)
{
    rd_kafka_destroy_flags(rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    return NULL;
}

bool kafka_thread_ends(pthread_t thread, int timeout_ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    int64_t ns = until.tv_nsec + (int64_t)(timeout_ms % 1000) * 1000000;
    until.tv_sec += timeout_ms / 1000 + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    if (pthread_timedjoin_np(thread, NULL, &until) != 0) {
        (void)pthread_detach(thread);
        return false;
    }
    return true;
}

void kafka_client_end(rd_kafka_t *rk, int timeout_ms)
{
    pthread_t thread;
    if (rk != NULL && pthread_create(&thread, NULL, end_in_peace, rk) == 0) {
        (void)kafka_thread_ends(thread, timeout_ms);
    }
}

enum status kafka_client_wake_on(struct kafka_client *client, rd_kafka_queue_t *queue, struct fault *fault)
{
    if (client->wake_fd < 0) {
        client->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    }
    if (client->wake_fd < 0) {
        fault_set(fault, "eventfd", "no descriptor left");
        return ST_RETRY;
    }
    static const uint64_t one = 1;
    rd_kafka_queue_io_event_enable(queue, client->wake_fd, &one, sizeof one);
    return ST_OK;
}

void kafka_client_drain(const struct kafka_client *client)
{
    uint64_t ignored;
    while (client->wake_fd >= 0 && read(client->wake_fd, &ignored, sizeof ignored) > 0) {
    }
}
