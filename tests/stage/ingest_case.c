/* See ingest_case.h. */
#include "ingest_case.h"

#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void case_open(struct world *w, const char *name, int partitions)
{
    world_open(w, name);
    world_database(w);
    world_topics(w, partitions);
}

struct child *case_dispatcher(struct world *w, const char *extra)
{
    char text[1024];
    snprintf(text, sizeof text, "%s%s", INGEST_ONLY, extra == NULL ? "" : extra);
    return world_dispatcher(w, text);
}

void case_produce_good(struct world *w, const char *run, const char *recipient)
{
    char value[512];
    snprintf(value, sizeof value,
             "{\"run_id\":\"%s\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"%s\","
             "\"title\":\"good\"}",
             run, recipient);
    world_produce(w, w->events, 0, recipient, value);
}

static void keep(char *at, size_t size, const char *text)
{
    snprintf(at, size, "%s", text == NULL ? "" : text);
}

static void read_header(struct dead_letter *letter, const struct world_header *header)
{
    if (strcmp(header->name, "belfry.error.code") == 0) {
        keep(letter->code, sizeof letter->code, header->value);
    } else if (strcmp(header->name, "belfry.error.field") == 0) {
        keep(letter->field, sizeof letter->field, header->value);
    } else if (strcmp(header->name, "belfry.error.message") == 0) {
        keep(letter->message, sizeof letter->message, header->value);
    } else if (strcmp(header->name, "belfry.origin.topic") == 0) {
        keep(letter->topic, sizeof letter->topic, header->value);
    } else if (strcmp(header->name, "belfry.origin.partition") == 0) {
        letter->partition = atoi(header->value);
    } else if (strcmp(header->name, "belfry.origin.offset") == 0) {
        letter->offset = atoll(header->value);
    } else if (strcmp(header->name, "belfry.error.cut") == 0) {
        letter->cut = atoll(header->value);
    }
}

static void read_one(void *context, const struct world_record *record)
{
    struct dead_letters *dead = context;
    cr_assert(dead->count < DEAD_MAX, "more than %d dead letters", DEAD_MAX);
    struct dead_letter *letter = &dead->all[dead->count++];
    *letter = (struct dead_letter){.offset = -1, .partition = -1, .value_bytes = record->value_bytes};
    keep(letter->key, sizeof letter->key, record->key);
    keep(letter->value, sizeof letter->value, record->value);
    for (int i = 0; i < record->header_count; i++) {
        read_header(letter, &record->headers[i]);
    }
}

static int by_offset(const void *a, const void *b)
{
    const struct dead_letter *left = a, *right = b;
    return (left->offset > right->offset) - (left->offset < right->offset);
}

void case_read_dead(struct world *w, struct dead_letters *dead)
{
    dead->count = 0;
    world_read_topic(w, w->dlq, read_one, dead);
    qsort(dead->all, (size_t)dead->count, sizeof dead->all[0], by_offset);
    for (int i = 0; i < dead->count; i++) {
        const struct dead_letter *letter = &dead->all[i];
        printf("dead letter: offset %lld, %s %s: %.120s\n", (long long)letter->offset, letter->code,
               letter->field, letter->message);
    }
}

void *case_lock(struct world *w)
{
    PGconn *other = PQconnectdb(w->uri);
    PQclear(PQexec(other, "BEGIN"));
    PGresult *result = PQexec(other, "LOCK TABLE notifications IN ACCESS EXCLUSIVE MODE");
    cr_assert_eq(PQresultStatus(result), PGRES_COMMAND_OK, "%s", PQerrorMessage(other));
    PQclear(result);
    return other;
}

void case_unlock(void *lock)
{
    PQclear(PQexec(lock, "ROLLBACK"));
    PQfinish(lock);
}

void case_wait_blocked(struct world *w, int statements)
{
    world_wait_count(
        w, statements,
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'notifications'::regclass");
}

void case_wait_read(struct world *w)
{
    world_wait_drained(w, w->group, w->events, 30);
}

void case_close(struct world *w, struct child *dispatcher)
{
    world_check_books(w);
    if (dispatcher != NULL) {
        child_stop(dispatcher);
    }
    world_close(w);
}
