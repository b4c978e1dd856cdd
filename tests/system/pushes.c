#include "pushes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENT_MAX = 512 * 1024, LINE_MAX_BYTES = 64 * 1024, ARRIVALS_MAX = 100000 };

void pushes_open(struct world *w, const char *name, const char *const *simulator_arguments)
{
    world_open(w, name);
    world_database(w);
    world_topics(w, 2);
    world_simulator(w, simulator_arguments);
}

void pushes_devices(struct world *w, const char *run, int count)
{
    cr_assert_eq(world_count(w,
                             "SELECT count(belfry_register_device('%s-' || i,"
                             " 'ExponentPushToken[%s-' || i || ']', 'ios')) FROM generate_series(0, %d) AS i",
                             run, run, count - 1),
                 count);
}

void pushes_event(struct world *w, const char *run, const char *event, int count, const char *more)
{
    char *value = malloc(EVENT_MAX);
    size_t bytes =
        (size_t)snprintf(value, EVENT_MAX,
                         "{\"run_id\":\"%s\",\"event_type\":\"%s\",\"workspace_id\":\"w\",\"title\":"
                         "\"Private title\",\"body\":\"Private body\"%s,\"recipients\":[",
                         event, event, more);
    for (int i = 0; i < count; i++)
        bytes += (size_t)snprintf(value + bytes, EVENT_MAX - bytes, "%s\"%s-%d\"", i == 0 ? "" : ",", run, i);
    snprintf(value + bytes, EVENT_MAX - bytes, "]}");
    world_produce(w, w->events, 0, event, value);
    free(value);
}

void pushes_wait(struct world *w, const char *event, int count)
{
    world_wait_count(w, count, "SELECT count(*) FROM notifications WHERE event_type = '%s'", event);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
}

struct tally {
    const char *text, *other;
    int records;
};

static void count_record(void *context, const struct world_record *record)
{
    struct tally *tally = context;
    tally->records += (tally->text == NULL || strstr(record->value, tally->text) != NULL) &&
                      (tally->other == NULL || strstr(record->value, tally->other) != NULL);
    cr_assert(strstr(record->value, "PushToken") == NULL && strstr(record->value, "Private") == NULL);
}

int pushes_outcomes(struct world *w, const char *text, const char *other)
{
    struct tally tally = {text, other, 0};
    world_read_topic(w, w->receipts, count_record, &tally);
    return tally.records;
}

/* ---- the provider's record ----------------------------------------------------------------------------- */

struct arrival {
    int64_t at_ms, call;
    char push[128]; /* token and notification */
};

static struct arrival *read_record(struct world *w, const char *text, size_t *count)
{
    struct arrival *arrivals = calloc(ARRIVALS_MAX, sizeof *arrivals);
    FILE *stream = fopen(w->record, "r");
    char *line = NULL;
    size_t size = 0;
    cr_assert(arrivals != NULL && stream != NULL);
    *count = 0;
    while (getline(&line, &size, stream) > 0) {
        if (text != NULL && strstr(line, text) == NULL)
            continue;
        cr_assert_lt(*count, ARRIVALS_MAX);
        struct arrival *arrival = &arrivals[(*count)++];
        char token[64], id[64];
        arrival->at_ms = strtoll(strstr(line, "\"at_ms\":") + 8, NULL, 10);
        arrival->call = strtoll(strstr(line, "\"call\":") + 7, NULL, 10);
        cr_assert_eq(sscanf(strstr(line, "\"token\":") + 8, "\"%63[^\"]\"", token), 1);
        cr_assert_eq(sscanf(strstr(line, "\"notification_id\":") + 18, "\"%63[^\"]\"", id), 1);
        snprintf(arrival->push, sizeof arrival->push, "%s %s", token, id);
    }
    free(line);
    fclose(stream);
    return arrivals;
}

static int by_push(const void *a, const void *b)
{
    return strcmp(((const struct arrival *)a)->push, ((const struct arrival *)b)->push);
}

int64_t pushes_accepted_once(struct world *w)
{
    size_t count;
    struct arrival *arrivals = read_record(w, NULL, &count);
    qsort(arrivals, count, sizeof *arrivals, by_push);
    for (size_t i = 1; i < count; i++)
        cr_assert(strcmp(arrivals[i - 1].push, arrivals[i].push) != 0, "accepted twice: %s",
                  arrivals[i].push);
    free(arrivals);
    return (int64_t)count;
}

struct pushes_rate pushes_rate_seen(struct world *w, const char *text)
{
    size_t count, from = 0;
    struct arrival *arrivals = read_record(w, text, &count);
    struct pushes_rate rate = {.messages = (int64_t)count};
    int64_t last_call = -1, in_call = 0;
    for (size_t i = 0; i < count; i++) {
        in_call = arrivals[i].call == last_call ? in_call + 1 : 1;
        rate.requests += arrivals[i].call != last_call;
        last_call = arrivals[i].call;
        rate.largest = in_call > rate.largest ? in_call : rate.largest;
        while (arrivals[from].at_ms < arrivals[i].at_ms - 999)
            from++;
        int64_t within = (int64_t)(i - from + 1);
        rate.busiest = within > rate.busiest ? within : rate.busiest;
    }
    rate.first_ms = count > 0 ? arrivals[0].at_ms : 0;
    rate.last_ms = count > 0 ? arrivals[count - 1].at_ms : 0;
    free(arrivals);
    return rate;
}

/* ---- the dispatcher ------------------------------------------------------------------------------------ */

int64_t pushes_log_number(struct child *child, const char *id, const char *field)
{
    FILE *stream = fopen(child->log, "r");
    char *line = NULL, mark[64], name[64];
    size_t size = 0;
    int64_t number = -1;
    snprintf(mark, sizeof mark, "\"%s\"", id);
    snprintf(name, sizeof name, "\"%s\":", field);
    cr_assert(stream != NULL);
    while (getline(&line, &size, stream) > 0) {
        const char *at = strstr(line, mark) == NULL ? NULL : strstr(line, name);
        if (at != NULL)
            number = strtoll(at + strlen(name), NULL, 10);
    }
    free(line);
    fclose(stream);
    return number;
}

long pushes_readyz(struct child *child, char *text, size_t size)
{
    char url[128];
    struct world_reply reply;
    snprintf(url, sizeof url, "http://%s/readyz", child->admin);
    world_http("GET", url, NULL, NULL, &reply);
    snprintf(text, size, "%s", reply.body == NULL ? "" : reply.body);
    long status = reply.status;
    world_reply_done(&reply);
    return status;
}
