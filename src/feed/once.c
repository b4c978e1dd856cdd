/* In: the flags of a one-shot. Out: what the HTTP answer's body would be, or a token. Always: the same
 * parameters, statement and JSON as over HTTP, membership included. */
#include "feed/auth.h"
#include "feed/feed.h"
#include "feed/keys.h"
#include "feed/parameters.h"
#include "feed/reply.h"
#include "feed/routes.h"
#include "store/page.h"
#include "store/schema.h"

#include "base/utf8.h"

static enum status once_usage(struct fault *fault, const char *field, const char *detail)
{
    fault_set(fault, "usage", "%s", detail);
    fault_set_field(fault, field);
    return ST_REJECT;
}

static enum status once_write(const struct ask *ask, const struct db_result *result, const struct keys *keys,
                              struct buffer *out, struct fault *fault)
{
    struct buffer link;
    struct answer answer = {.body = out, .link = &link};
    struct parameters_cursors cursors;
    struct page page;
    enum status status = page_open(&ask->query, result, &page, fault);
    if (status == ST_OK && !page.member) {
        fault_set(fault, "not_a_member", "the user is not a member of this workspace");
        return ST_STOP;
    }
    if (status == ST_OK)
        status = parameters_cursors(ask, &page, &keys->cursor, &cursors, fault);
    if (status != ST_OK)
        return status;
    buffer_init(&link, REPLY_LINK_BYTES_MAX);
    reply_write_page(&answer, ask, &page, &cursors);
    buffer_done(&link);
    return ST_OK;
}

static enum status once_read(const struct feed_setup *setup, const struct page_query *query,
                             struct db_result **result, struct fault *fault)
{
    struct db_settings settings = {
        .uri = setup->database_uri,
        .application_name = "belfry-reader page",
        .role = DB_ROLE_READER,
        .prepared_statements = setup->prepared_statements,
        .statement_timeout_max_ms = (int)setup->http->statement_timeout_ms,
        .clock = &setup->clock,
    };
    struct db *db;
    enum status status = db_open(&settings, &db, fault);
    if (status != ST_OK)
        return status;
    status = store_check_schema(db, fault);
    if (status == ST_OK)
        status = page_read(db, query, result, fault);
    db_close(db);
    return status == ST_REJECT ? ST_STOP : status; /* not the user's input: a failure, not usage */
}

enum status feed_page(const struct feed_setup *setup, const struct feed_once *once, struct buffer *out,
                      struct fault *fault)
{
    if (!span_is(once->feed, ROUTES_NOTIFICATIONS))
        return once_usage(fault, "feed", "there is no such feed: this version has notifications");
    if (!routes_is_workspace(once->workspace))
        return once_usage(fault, "workspace", "--workspace takes 1 to 200 bytes of UTF-8 text");
    if (once->user.bytes == 0 || once->user.bytes > JWT_SUB_MAX || !utf8_is_text(once->user))
        return once_usage(fault, "user", "--user takes 1 to 200 bytes of UTF-8 text");
    struct keys keys;
    struct ask ask;
    struct page_statements *statements = NULL;
    struct db_result *result = NULL;
    enum status status = keys_load(setup->settings, &keys, fault);
    if (status != ST_OK)
        return status;
    statements = page_compose(&page_notifications);
    if (statements == NULL) {
        fault_set(fault, "memory", "no memory for the feed's statements");
        status = ST_FATAL;
    }
    struct parameters_input input = {
        .parameters = once->parameters,
        .count = once->count,
        .workspace_id = once->workspace,
        .user_id = once->user,
        .statements = statements,
        .keys = &keys.cursor,
        .scan_max = (int64_t)setup->http->scan_max,
        .cursor_ttl_us = setup->settings->cursor.cursor_ttl_ms * 1000,
        .now_us = clock_wall_us(&setup->clock),
    };
    if (status == ST_OK)
        status = parameters_read(&input, &ask, fault);
    if (status == ST_OK)
        status = once_read(setup, &ask.query, &result, fault);
    if (status == ST_OK)
        status = once_write(&ask, result, &keys, out, fault);
    db_result_free(result);
    page_statements_free(statements);
    keys_wipe(&keys);
    return status;
}

enum status feed_token(const struct auth_settings *settings, const struct feed_grant *asked,
                       struct buffer *out, struct fault *fault)
{
    struct jwt_keys keys;
    int64_t now_s = asked->now_us / 1000000;
    struct jwt_grant grant = {
        .sub = asked->sub,
        .issuer = settings->issuer,
        .audience = settings->audience,
        .issued_at_s = now_s,
        .expires_at_s = now_s + asked->ttl_ms / 1000,
    };
    enum status status = keys_load_auth(settings, &keys, fault);
    if (status != ST_OK)
        return status;
    status = auth_mint(settings, &keys, &grant, out, fault);
    jwt_keys_wipe(&keys);
    return status;
}
