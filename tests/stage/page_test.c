/* The page statements through their C function, as the role belfry_reader, against a real Postgres. */
#include "store/page.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

static struct world w;
static struct db *db;
static struct page_statements *statements;

static void begin(const char *name)
{
    world_open(&w, name);
    world_database(&w);
    world_exec(&w, "SELECT belfry_set_member('w', u, 'member') FROM unnest(ARRAY['u1', 'empty']) AS u");
    struct db_settings settings = {
        .uri = world_role_uri(&w, "belfry_reader"),
        .application_name = "page_test",
        .role = DB_ROLE_READER,
        .prepared_statements = true,
    };
    struct fault fault;
    statements = page_compose(&source_notifications, 30000);
    cr_assert_not_null(statements);
    cr_assert_eq(db_open(&settings, &db, &fault), ST_OK, "%s", fault.text);
}

static void end(void)
{
    db_close(db);
    page_statements_free(statements);
    world_close(&w);
}

/* n entries, the newest is number 1; every third is read; categories c0 … c9 in turn. */
static void put_entries(int n)
{
    world_exec(
        &w,
        "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, category, title, data,"
        " occurred_at, created_at, read_at)"
        " SELECT lpad(to_hex(%d - i), 32, '0')::uuid, 'w', 'u1', 't' || i %% 2, 'c' || i %% 10,"
        " 'title ' || i, CASE WHEN i = 1 THEN '{\"n\": 9007199254740993}'::json END,"
        " CASE WHEN i = 1 THEN timestamptz '2026-01-02T03:04:05.000006Z' END,"
        " timestamptz '2026-03-21T09:00:00.123456Z' - (i / 4) * interval '1 ms',"
        " CASE WHEN i %% 3 = 0 THEN timestamptz '2026-03-22' END"
        " FROM generate_series(1, %d) AS i",
        n + 1, n);
}

static struct page_query ask(const char *workspace, const char *user, int limit)
{
    return (struct page_query){.statements = statements,
                               .workspace_id = span_of(workspace),
                               .user_id = span_of(user),
                               .limit = limit,
                               .scan_max = 2000};
}

static struct source_value text_value(const char *text)
{
    return (struct source_value){.given = true, .text = span_of(text)};
}

static struct db_result *read_page(const struct page_query *query, struct page *page)
{
    struct db_result *result = NULL;
    struct fault fault;
    cr_assert_eq(page_read(db, query, &result, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(page_open(query, result, page, &fault), ST_OK, "%s", fault.text);
    return result;
}

/* The columns of the built-in feed, in order. */
enum { ID, EVENT_TYPE, CATEGORY, TITLE, BODY, DATA, OCCURRED_AT, CREATED_AT, READ_AT };

static struct span column_text(const struct db_result *result, int row, int column)
{
    return db_result_text(result, row, PAGE_COLUMN_FIRST + column);
}

/* The number in "title N". */
static int number_at(const struct page *page, int index)
{
    struct span shown = column_text(page->result, page_row(page, index), TITLE);
    char title[64];
    snprintf(title, sizeof title, "%.*s", (int)shown.bytes, shown.at);
    cr_assert_eq(strncmp(title, "title ", 6), 0, "%s", title);
    return (int)strtol(title + 6, NULL, 10);
}

/* Walks to the end; numbers[] gets what was shown. */
static int walk(struct page_query query, int *numbers, int *pages)
{
    int count = 0;
    bool more = true;
    for (*pages = 0; more; ++*pages) {
        struct page page;
        struct db_result *result = read_page(&query, &page);
        cr_assert_eq(page.access, PAGE_GRANTED);
        cr_assert_leq(page.count, query.limit);
        for (int i = 0; i < page.count; i++)
            numbers[count++] = number_at(&page, i);
        more = page.has_more;
        query.continues = true;
        query.after = page.next;
        db_result_free(result);
        cr_assert_lt(*pages, 10000);
    }
    return count;
}

Test(page, membership)
{
    static const struct {
        const char *workspace, *user;
        bool member;
        int count;
    } rows[] = {{"w", "u1", true, 3},
                {"w", "empty", true, 0},
                {"w", "stranger", false, 0},
                {"other", "u1", false, 0},
                {"W", "u1", false, 0}};
    begin("page_membership");
    put_entries(3);
    world_exec(
        &w, "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at)"
            " VALUES (gen_random_uuid(), 'other', 'u1', 't', 't', now())");
    for (int form = 0; form < 8; form++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            struct page page;
            struct page_query query = ask(rows[i].workspace, rows[i].user, 20);
            query.flag = (form & 1) != 0;
            query.continues = (form & 2) != 0;
            query.after = (struct page_position){.created_at_us = INT64_C(4000000000000000),
                                                 .id = {.type = SOURCE_UUID}};
            if ((form & 4) != 0)
                query.filters[1] = text_value("t1");
            struct db_result *result = read_page(&query, &page);
            cr_expect_eq(page.access == PAGE_GRANTED, rows[i].member, "%s %s form %d", rows[i].workspace,
                         rows[i].user, form);
            if (form == 0 || form == 2)
                cr_expect_eq(page.count, rows[i].count, "%s %s form %d: %d", rows[i].workspace, rows[i].user,
                             form, page.count);
            cr_expect(!page.has_more);
            db_result_free(result);
        }
    }
    world_exec(&w, "SELECT belfry_remove_member('w', 'u1')");
    struct page page;
    struct page_query query = ask("w", "u1", 20);
    struct db_result *result = read_page(&query, &page);
    cr_expect(page.access == PAGE_NO_MEMBER && page.count == 0, "taken out: nothing is read");
    db_result_free(result);
    end();
}

Test(page, entries)
{
    begin("page_entries");
    put_entries(4);
    struct page page;
    struct page_query query = ask("w", "u1", 4);
    struct db_result *result = read_page(&query, &page);
    cr_assert_eq(page.count, 4);
    cr_expect(!page.has_more, "exactly limit entries: no more");
    int first = page_row(&page, 0), third = page_row(&page, 2);
    cr_expect(span_is(column_text(result, first, DATA), "{\"n\": 9007199254740993}"),
              "the bytes as they were");
    cr_expect(!db_result_is_null(result, first, PAGE_COLUMN_FIRST + OCCURRED_AT));
    cr_expect(db_result_is_null(result, first, PAGE_COLUMN_FIRST + READ_AT));
    cr_expect(!db_result_is_null(result, third, PAGE_COLUMN_FIRST + READ_AT));
    cr_expect(db_result_is_null(result, third, PAGE_COLUMN_FIRST + OCCURRED_AT));
    cr_expect_eq(db_result_time(result, first, PAGE_COLUMN_FIRST + OCCURRED_AT) % 1000000, 6);
    cr_expect_eq(db_result_time(result, first, PAGE_COLUMN_FIRST + CREATED_AT) % 1000000, 123456);
    cr_expect_null(column_text(result, third, DATA).at);
    cr_expect(span_is(column_text(result, first, CATEGORY), "c1"));
    cr_expect(span_is(column_text(result, first, EVENT_TYPE), "t1"));
    cr_expect(span_is(column_text(result, first, BODY), ""));
    db_result_free(result);
    end();
}

Test(page, walks)
{
    enum { N = 230 };
    static int numbers[N + 1];
    static const int limits[] = {1, 2, 3, 7, 20, 100};
    begin("page_walks");
    put_entries(N);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        int pages, count = walk(ask("w", "u1", limits[i]), numbers, &pages);
        cr_assert_eq(count, N, "limit %d: %d", limits[i], count);
        cr_assert_eq(pages, (N + limits[i] - 1) / limits[i]);
        for (int k = 0; k < N; k++)
            cr_assert_eq(numbers[k], k + 1, "limit %d: place %d is %d", limits[i], k, numbers[k]);
        struct page_query unread = ask("w", "u1", limits[i]);
        unread.flag = true;
        cr_assert_eq(walk(unread, numbers, &pages), N - N / 3);
        for (int k = 0; k < N - N / 3; k++)
            cr_assert_eq(numbers[k], 1 + k / 2 * 3 + k % 2);
    }
    end();
}

/* Filters without an index: whatever scan_max is, the walk shows each match once and ends. */
Test(page, scans)
{
    enum { N = 230 };
    static int numbers[N + 1];
    static const int scans[] = {101, 115, 150, 229, 230, 231, 2000};
    static const int limits[] = {1, 5, 20, 23, 100};
    begin("page_scans");
    put_entries(N);
    for (size_t s = 0; s < sizeof scans / sizeof scans[0]; s++) {
        for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
            int pages;
            struct page_query query = ask("w", "u1", limits[i]);
            query.scan_max = scans[s];
            query.filters[0] = text_value("c7");
            cr_assert_eq(walk(query, numbers, &pages), N / 10, "scan_max %d limit %d", scans[s], limits[i]);
            for (int k = 0; k < N / 10; k++)
                cr_assert_eq(numbers[k], 7 + 10 * k);
            query.filters[1] = text_value("t0");
            cr_assert_eq(walk(query, numbers, &pages), 0, "c7 are all t1");
            cr_assert_eq(pages, N / scans[s] + 1, "scan_max %d: %d pages, perhaps empty", scans[s], pages);
            query.filters[1] = text_value("t1");
            query.flag = true;
            cr_assert_eq(walk(query, numbers, &pages), 16, "7, 17, 37, 47 … 227");
        }
    }
    end();
}
