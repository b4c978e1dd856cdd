/* What a client may write into a query, row by row. */
#include "feed/parameters.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { NOW_S = 1790000000 };

static struct cursor_keys keys;
static struct page_statements *statements;

static void make_keys(void)
{
    statements = page_compose(&source_notifications, 30000); /* until the test's process ends */
    memset(&keys, 0, sizeof keys);
    keys.keys[0].id[0] = '1';
    keys.keys[0].secret.count = CRYPTO_KEY_MIN;
    memset(keys.keys[0].secret.bytes, 7, CRYPTO_KEY_MIN);
    keys.count = 1;
}

/* Reads "name=value&name=value" (nothing escaped); name without '=' has no value. */
static enum status ask_as(const char *user, const char *query, struct ask *ask, struct fault *fault)
{
    static char text[2048];
    struct http_parameter parameters[16];
    size_t count = 0;
    snprintf(text, sizeof text, "%s", query);
    char *save = NULL;
    for (char *pair = strtok_r(text, "&", &save); pair != NULL; pair = strtok_r(NULL, "&", &save)) {
        char *equals = strchr(pair, '=');
        parameters[count].value = (struct span){NULL, 0};
        if (equals != NULL) {
            *equals = '\0';
            parameters[count].value = span_of(equals + 1);
        }
        parameters[count++].name = span_of(pair);
    }
    struct parameters_input input = {
        .parameters = parameters,
        .count = count,
        .workspace_id = span_of("w"),
        .user_id = span_of(user),
        .statements = statements,
        .keys = &keys,
        .scan_max = 2000,
        .cursor_ttl_us = 3600 * (int64_t)1000000,
        .now_us = NOW_S * (int64_t)1000000,
    };
    fault_reset(fault);
    return parameters_read(&input, ask, fault);
}

static void refused(const char *query, const char *code, const char *parameter)
{
    struct ask ask;
    struct fault fault;
    cr_expect_eq(ask_as("u1", query, &ask, &fault), ST_REJECT, "%s", query);
    cr_expect_str_eq(fault.code, code, "%s: %s", query, fault.code);
    cr_expect_str_eq(fault.field, parameter, "%s: %s", query, fault.field);
    cr_expect_neq(fault.text[0], '\0');
}

Test(parameters, limit)
{
    static const struct {
        const char *text;
        int limit;
    } rows[] = {
        {"", 20},
        {"-1", 20},
        {"-9223372036854775808", 20},
        {"abc", 20},
        {"1.5", 20},
        {"+5", 20},
        {" 5", 20},
        {"5 ", 20},
        {"0x10", 20},
        {"٣", 20},
        {"0", 20},
        {"000", 20},
        {"1e1", 20},
        {"1", 1},
        {"007", 7},
        {"100", 100},
        {"101", 100},
        {"4294967297", 100},
        {"18446744073709551617", 100},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(parameters_limit(span_of(rows[i].text)), rows[i].limit, "'%s'", rows[i].text);
    cr_expect_eq(parameters_limit((struct span){NULL, 0}), 20);
    cr_expect_eq(parameters_limit((struct span){"5\0", 2}), 20, "a NUL is no digit");
}

Test(parameters, refusals)
{
    make_keys();
    refused("limmit=5", "unknown_parameter", "limmit");
    refused("LIMIT=5", "unknown_parameter", "LIMIT");
    refused("=5", "unknown_parameter", "");
    refused("limit=5&limit=5", "repeated_parameter", "limit");
    refused("cursor=&cursor=", "repeated_parameter", "cursor");
    refused("unread&unread=true", "repeated_parameter", "unread");
    refused("unread=false", "invalid_parameter", "unread");
    refused("unread=", "invalid_parameter", "unread");
    refused("category=", "invalid_parameter", "category");
    refused("category=\xff", "invalid_parameter", "category");
    refused("event_type=", "invalid_parameter", "event_type");
    refused("direction=sideways", "invalid_parameter", "direction");
    refused("direction=", "invalid_parameter", "direction");
    refused("direction=newer", "invalid_parameter", "direction");
    refused("contract=snapshot", "invalid_parameter", "contract");
    refused("cursor=x", "invalid_cursor", "cursor");
}

Test(parameters, filters)
{
    struct ask ask;
    struct fault fault;
    make_keys();
    cr_assert_eq(ask_as("u1", "", &ask, &fault), ST_OK);
    cr_expect_eq(ask.query.limit, 20);
    cr_expect(!ask.query.flag && !ask.query.continues);
    cr_expect(!ask.query.filters[0].given && !ask.query.filters[1].given);
    cr_assert_eq(ask_as("u1",
                        "unread=true&category=meetings&event_type=a.b&direction=older&contract=live&cursor=",
                        &ask, &fault),
                 ST_OK);
    cr_expect(ask.query.flag && !ask.query.continues);
    cr_expect(span_is(ask.query.filters[0].text, "meetings"));
    cr_expect(span_is(ask.query.filters[1].text, "a.b"));
    cr_expect_eq(ask.query.scan_max, 2000);
}

/* The cursor of a page that goes on at `at`. */
static void write_cursor(const struct ask *ask, struct page_position at, char *cursor)
{
    struct fault fault;
    struct parameters_cursors cursors;
    struct page page = {.has_more = true, .has_next = true, .next = at, .prev = at};
    cr_assert_eq(parameters_cursors(ask, &page, &keys, &cursors, &fault), ST_OK);
    snprintf(cursor, CURSOR_TEXT_MAX + 1, "%s", cursors.next);
}

/* A cursor from the query `from`, used with `to`; the code, or "". */
static void crossed(const char *from, const char *to, const char *user, const char *code)
{
    struct ask ask;
    struct fault fault;
    char cursor[CURSOR_TEXT_MAX + 1], query[2048];
    struct page_position at = {.created_at_us = 1790000000123456,
                               .id = {.type = SOURCE_UUID, .uuid = {{1, 2, 3}}}};
    cr_assert_eq(ask_as("u1", from, &ask, &fault), ST_OK);
    write_cursor(&ask, at, cursor);
    snprintf(query, sizeof query, "cursor=%s%s%s", cursor, to[0] == '\0' ? "" : "&", to);
    enum status status = ask_as(user, query, &ask, &fault);
    cr_expect_eq(status, code[0] == '\0' ? ST_OK : ST_REJECT, "%s → %s: %s", from, to, fault.code);
    cr_expect_str_eq(fault.code, code, "%s → %s", from, to);
    if (status != ST_OK)
        return;
    cr_expect(ask.query.continues);
    cr_expect_eq(ask.query.after.created_at_us, at.created_at_us);
    cr_expect_eq(source_id_compare(&ask.query.after.id, &at.id), 0);
}

Test(parameters, cursors)
{
    make_keys();
    crossed("", "", "u1", "");
    crossed("limit=5", "limit=7", "u1", "");
    crossed("", "direction=older&contract=live", "u1", "");
    crossed("unread=true&category=a", "category=a&unread=true", "u1", "");
    crossed("", "", "u2", "cursor_mismatch");
    crossed("", "unread=true", "u1", "cursor_mismatch");
    crossed("unread=true", "", "u1", "cursor_mismatch");
    crossed("category=a", "category=b", "u1", "cursor_mismatch");
    crossed("category=a", "event_type=a", "u1", "cursor_mismatch");
    crossed("", "direction=newer", "u1", "cursor_mismatch");
    crossed("", "contract=boundary", "u1", "cursor_mismatch");
    crossed("contract=boundary", "", "u1", "");
    crossed("contract=boundary", "contract=boundary", "u1", "");
    crossed("contract=boundary", "contract=live", "u1", "cursor_mismatch");
}

/* Cursors of before feeds could be declared go on: SHA-256 over the parts with their lengths, computed apart.
 */
Test(parameters, fingerprints_stay)
{
    struct ask ask;
    struct fault fault;
    make_keys();
    cr_assert_eq(ask_as("u1", "", &ask, &fault), ST_OK);
    cr_expect_eq(ask.from.fingerprint, 0xf953829c2ee24da0ULL, "%llx",
                 (unsigned long long)ask.from.fingerprint);
    cr_assert_eq(ask_as("u1", "contract=boundary&unread=true&event_type=a.b&category=meetings", &ask, &fault),
                 ST_OK);
    cr_expect_eq(ask.from.fingerprint, 0xbda33028acc90845ULL, "%llx",
                 (unsigned long long)ask.from.fingerprint);
}

Test(parameters, expired)
{
    struct ask ask;
    struct fault fault;
    char cursor[CURSOR_TEXT_MAX + 1], query[2048];
    struct page_position at = {.created_at_us = 1, .id = {.type = SOURCE_UUID}};
    make_keys();
    cr_assert_eq(ask_as("u1", "", &ask, &fault), ST_OK);
    ask.now_us -= 3601 * (int64_t)1000000;
    write_cursor(&ask, at, cursor);
    snprintf(query, sizeof query, "cursor=%s", cursor);
    cr_assert_eq(ask_as("u1", query, &ask, &fault), ST_REJECT);
    cr_expect_str_eq(fault.code, "cursor_expired");
}

/* A boundary cursor counts transactions of one database: a page read in another is none of its walk. */
Test(parameters, cluster)
{
    struct ask ask;
    struct fault fault;
    struct parameters_cursors cursors;
    char query[2048];
    struct page_position at = {.created_at_us = 5, .id = {.type = SOURCE_UUID, .uuid = {{1}}}};
    struct page page = {.has_next = true, .next = at, .prev = at, .cluster = 7};
    page.snapshot = (struct page_snapshot){.xmin = 700, .xmax = 710, .count = 2, .running = {700, 705}};
    make_keys();
    cr_assert_eq(ask_as("u1", "contract=boundary", &ask, &fault), ST_OK);
    cr_expect(ask.query.boundary && !ask.query.continues);
    cr_assert_eq(parameters_cursors(&ask, &page, &keys, &cursors, &fault), ST_OK);
    snprintf(query, sizeof query, "cursor=%s", cursors.next);
    cr_assert_eq(ask_as("u1", query, &ask, &fault), ST_OK, "%s", fault.text);
    cr_expect(ask.query.boundary && ask.query.continues && !ask.query.newer);
    cr_expect_eq(ask.query.snapshot.count, 2);
    cr_expect_eq(ask.query.snapshot.running[1], 705);
    cr_assert_eq(parameters_cursors(&ask, &page, &keys, &cursors, &fault), ST_OK);
    page.cluster = 8;
    cr_assert_eq(parameters_cursors(&ask, &page, &keys, &cursors, &fault), ST_REJECT);
    cr_expect_str_eq(fault.code, CURSOR_EXPIRED);
    snprintf(query, sizeof query, "direction=newer&cursor=%s", cursors.prev);
    cr_assert_eq(ask_as("u1", query, &ask, &fault), ST_OK, "%s", fault.text);
    cr_expect(ask.query.newer);
}
