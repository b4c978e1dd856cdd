/* Names and events for the store's stage tests. */
#include "store_fixture.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/owner.h"

int64_t fixture_now_us(void)
{
    return clock_wall_us(&clock_system);
}

struct db *fixture_connect(struct fixture *f)
{
    struct db_settings settings = {.uri = world_role_uri(&f->world, "belfry_dispatcher"),
                                   .application_name = "stage",
                                   .role = DB_ROLE_DISPATCHER,
                                   .prepared_statements = true};
    struct db *db = NULL;
    struct fault fault;
    fault_reset(&fault);
    enum status status = db_open(&settings, &db, &fault);
    cr_assert_eq(status, ST_OK, "%s: %s", fault.code, fault.text);
    return db;
}

struct fixture *fixture_open(const char *name, size_t parts)
{
    struct fixture *f = calloc(1, sizeof *f);
    cr_assert(f != NULL);
    world_open(&f->world, name);
    world_database(&f->world);
    f->db = fixture_connect(f);
    f->scope = (struct offsets_scope){.group_id = "g", .topic = "events", .owner = owner_make()};
    f->settings = (struct claim_settings){
        .scope = f->scope, .devices_per_user_max = 20, .push_max_age_ms = 3600000, .lease_ms = 60000};
    f->claim = claim_new(&f->settings);
    arena_init(&f->arena, (size_t)256 * 1024 * 1024);
    struct offsets_seat seats[FIXTURE_PARTS_MAX];
    for (size_t i = 0; i < parts; i++)
        seats[i].partition = (int32_t)i;
    struct fault fault;
    cr_assert_eq(offsets_seat(f->db, &f->scope, seats, parts, &fault), ST_OK, "%s", fault.text);
    for (size_t i = 0; i < parts; i++) {
        cr_assert_eq(seats[i].next_offset, OFFSET_UNKNOWN);
        seats[i].next_offset = 0;
        f->parts[i] = (struct offsets_part){.partition = (int32_t)i, .generation = seats[i].generation};
    }
    cr_assert_eq(offsets_start(f->db, &f->scope, seats, parts, &fault), ST_OK, "%s", fault.text);
    f->part_count = parts;
    return f;
}

void fixture_close(struct fixture *f)
{
    claim_free(f->claim);
    db_close(f->db);
    arena_done(&f->arena);
    world_close(&f->world);
    free(f);
}

struct span fixture_text(struct fixture *f, const char *format, ...)
{
    char text[8192];
    va_list args;
    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is; version 14 loses sight of it */
    int bytes = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cr_assert(bytes >= 0 && (size_t)bytes < sizeof text);
    struct span span = {text, (size_t)bytes};
    span.at = arena_copy(&f->arena, span);
    cr_assert(span.at != NULL);
    return span;
}

struct event *fixture_event(struct fixture *f, int32_t partition, const char *run, const char *users)
{
    cr_assert(f->event_count < FIXTURE_EVENTS_MAX);
    struct event *event = &f->events[f->event_count];
    f->list[f->event_count++] = event;
    *event = (struct event){.run_id = fixture_text(f, "%s", run),
                            .event_type = span_of("t"),
                            .workspace_id = span_of("w"),
                            .category = span_of("general"),
                            .title = fixture_text(f, "title of %s", run),
                            .body = span_of("body"),
                            .event_at_us = fixture_now_us(),
                            .content_hash = 1,
                            .partition = partition,
                            .offset = f->parts[partition].end};
    f->parts[partition].end++;
    f->parts[partition].records++;
    size_t most = 1;
    for (const char *at = users; *at != '\0'; at++)
        most += *at == ' ';
    event->recipients = arena_array(&f->arena, most, sizeof *event->recipients);
    cr_assert(event->recipients != NULL);
    while (*users != '\0') {
        size_t bytes = strcspn(users, " ");
        struct recipient *recipient = &event->recipients[event->recipient_count++];
        recipient->user_id = fixture_text(f, "%.*s", (int)bytes, users);
        recipient->key = fixture_text(f, "notification:%s:t:%.*s", run, (int)bytes, users);
        users += bytes + (users[bytes] == ' ');
    }
    return event;
}

struct claim_batch fixture_batch(struct fixture *f)
{
    return (struct claim_batch){.parts = f->parts,
                                .part_count = f->part_count,
                                .events = f->list,
                                .event_count = f->event_count,
                                .now_us = fixture_now_us()};
}

void fixture_next(struct fixture *f)
{
    for (size_t i = 0; i < f->part_count; i++) {
        struct offsets_part *part = &f->parts[i];
        *part = (struct offsets_part){.partition = part->partition,
                                      .generation = part->generation,
                                      .start = part->end,
                                      .end = part->end};
    }
    f->event_count = 0;
    arena_reset(&f->arena);
}

struct claim_outcome fixture_claim(struct fixture *f)
{
    struct claim_batch batch = fixture_batch(f);
    struct claim_outcome outcome;
    struct fault fault;
    fault_reset(&fault);
    enum status status = claim_run(f->claim, f->db, &batch, &outcome, &fault);
    cr_assert_eq(status, ST_OK, "%s: %s", fault.code, fault.text);
    cr_assert(outcome.moved, "the fence failed");
    fixture_next(f);
    return outcome;
}

void fixture_device(struct fixture *f, const char *user, const char *token, int age_s)
{
    world_exec(&f->world,
               "INSERT INTO device_tokens (token, user_id, platform, last_seen)"
               " VALUES ('%s', '%s', 'ios', now() - %d * interval '1 s')",
               token, user, age_s);
}
