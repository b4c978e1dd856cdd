/* Steps of a walk that a test names by letters. */
#include "reader_steps.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

void bound_at(struct client *c, const char *instant)
{
    world_exec(&c->w, "UPDATE settled SET bound = '%s' WHERE feed = 'notifications'", instant);
}

void put_names(struct client *c, const char *names, int second, const char *step)
{
    world_exec(&c->w,
               "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, category, title,"
               " created_at) SELECT ('0199a000-0000-7000-8000-0000000000' || to_hex(ascii(n)))::uuid, 'w',"
               " 'u1', 't', CASE WHEN n < 'd' THEN 'low' ELSE 'high' END, n,"
               " timestamptz '2026-03-21T09:00:00Z' + interval '%d s' + (i - 1) * interval '%s'"
               " FROM unnest(string_to_array('%s', NULL)) WITH ORDINALITY AS x (n, i)",
               second, step, names);
}

const char *prev_cursor(const json_t *page)
{
    const char *cursor = json_string_value(json_object_get(page, "prev_cursor"));
    cr_assert_not_null(cursor);
    cr_assert_neq(cursor[0], '\0', "prev_cursor is never empty");
    return cursor;
}

void names_of(const json_t *page, char *names)
{
    size_t at = 0;
    for (size_t i = 0; i < page_count(page); i++)
        at += (size_t)snprintf(
            names + at, NAMES_MAX - at, "%s",
            json_string_value(json_object_get(json_array_get(json_object_get(page, "items"), i), "title")));
    names[at] = '\0';
}

void expect(const struct client *c, const char *query, const char *cursor, const char *names, char *next,
            char *prev)
{
    char text[URL_MAX - 256], found[NAMES_MAX];
    snprintf(text, sizeof text, "%s&cursor=%s", query, cursor);
    json_t *page = client_page(c, text);
    names_of(page, found);
    cr_assert_str_eq(found, names, "%s: %s, not %s", query, found, names);
    printf("  %-34s '%s'\n", query, found);
    char kept[2][CURSOR_MAX];
    snprintf(kept[0], CURSOR_MAX, "%s", page_cursor(page));
    snprintf(kept[1], CURSOR_MAX, "%s", prev_cursor(page));
    json_decref(page);
    if (next != NULL)
        memcpy(next, kept[0], CURSOR_MAX);
    if (prev != NULL)
        memcpy(prev, kept[1], CURSOR_MAX);
}

struct db *late_open(struct client *c, const char *sql)
{
    static const struct db_statement begin = {"begin", "BEGIN"};
    struct db_statement statement = {"late", sql};
    struct db_settings settings = {.uri = c->w.uri, .application_name = "late", .prepared_statements = false};
    struct fault fault;
    struct db *db;
    cr_assert_eq(db_open(&settings, &db, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(db_run(db, &begin, NULL, NULL, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(db_run(db, &statement, NULL, NULL, &fault), ST_OK, "%s", fault.text);
    return db;
}

struct db *late_begin(struct client *c, const char *name, const char *at)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at)"
             " VALUES (gen_random_uuid(), 'w', 'u1', 't', '%s', timestamptz '2026-03-21T09:00:00Z' + interval"
             " '%s s')",
             name, at);
    return late_open(c, sql);
}

void late_commit(struct db *db)
{
    static const struct db_statement commit = {"commit", "COMMIT"};
    struct fault fault;
    cr_assert_eq(db_run(db, &commit, NULL, NULL, &fault), ST_OK, "%s", fault.text);
    db_close(db);
}
