/* In: the flags of a one-shot. Out: what the HTTP answer's body would be, or a token. Always: the same
 * parameters, statement and JSON as over HTTP, membership included. */
#include <stdlib.h>

#include "feed/auth.h"
#include "feed/calls.h"
#include "feed/feed.h"
#include "feed/feeds.h"
#include "feed/keys.h"
#include "feed/parameters.h"
#include "feed/reply.h"
#include "feed/routes.h"
#include "once.h"
#include "store/page.h"
#include "store/schema.h"

#include "base/utf8.h"

enum status once_usage(struct fault *fault, const char *field, const char *detail)
{
    fault_set(fault, "usage", "%s", detail);
    fault_set_field(fault, field);
    return ST_REJECT;
}

struct once *once_new(const struct feed_setup *setup, struct fault *fault)
{
    struct once *once = calloc(1, sizeof *once);
    if (once == NULL)
        fault_set(fault, "memory", "no memory for a one-shot");
    else
        once->setup = setup;
    return once;
}

void once_free(struct once *once)
{
    db_close(once->db);
    feeds_done(&once->feeds);
    keys_wipe(&once->keys);
    free(once);
}

static enum status once_write(const struct once *once, const struct ask *ask, const struct db_result *result,
                              struct buffer *out, struct fault *fault)
{
    struct buffer link;
    struct answer answer = {.body = out, .link = &link, .form = &once->feed->form};
    struct parameters_cursors cursors;
    struct page page;
    enum status status = page_open(&ask->query, result, &page, fault);
    if (status == ST_OK && page.access != PAGE_GRANTED)
        status = calls_refuse_access(page.access, fault);
    if (status == ST_REJECT)
        return ST_STOP; /* who may read is the database's to say, not the command line's */
    if (status == ST_OK)
        status = parameters_cursors(ask, &page, &once->keys.cursor, &cursors, fault);
    if (status != ST_OK)
        return status;
    buffer_init(&link, REPLY_LINK_BYTES_MAX);
    reply_write_page(&answer, ask, &page, &cursors);
    buffer_done(&link);
    return ST_OK;
}

enum status once_connect(struct once *once, struct fault *fault)
{
    const struct feed_setup *setup = once->setup;
    struct db_settings settings = {
        .uri = setup->database_uri,
        .application_name = "belfry-reader once",
        .role = DB_ROLE_READER,
        .prepared_statements = setup->prepared_statements,
        .statement_timeout_max_ms = (int)setup->http->statement_timeout_ms,
        .answer_timeout_ms = once->answer_timeout_ms,
        .clock = &setup->clock,
    };
    enum status status = db_open(&settings, &once->db, fault);
    return status == ST_OK ? store_check_schema(once->db, fault) : status;
}

/* Not the user's input: a failure, not usage. */
static enum status once_read(struct once *once, const struct page_query *query, struct db_result **result,
                             struct fault *fault)
{
    enum status status = once->db == NULL ? once_connect(once, fault) : ST_OK;
    if (status == ST_OK)
        status = page_read(once->db, query, result, fault);
    return status == ST_REJECT ? ST_STOP : status;
}

enum status once_find(struct once *once, struct span name, struct fault *fault)
{
    int64_t settle_max_ms = once->setup->http->settle_max_ms;
    enum status status = feeds_init(&once->feeds, &once->setup->settings->feeds, settle_max_ms, fault);
    if (status != ST_OK)
        return status;
    struct feeds_entry *feed = feeds_find(&once->feeds, name);
    if (feed == NULL)
        return once_usage(fault, "feed", "there is no such feed");
    once->feed = feed;
    if (feed->source != NULL)
        return ST_OK;
    status = once_connect(once, fault);
    if (status == ST_OK)
        status = feeds_check(&once->feeds, feed, once->db, settle_max_ms, fault);
    return status == ST_REJECT ? ST_STOP : status;
}

enum status once_scope(const struct source *source, const struct feed_once *asked, struct fault *fault)
{
    if (source->workspace == NULL && asked->workspace.at != NULL)
        return once_usage(fault, "workspace", "this feed has no workspace: leave --workspace out");
    if (source->workspace != NULL && !routes_is_workspace(asked->workspace))
        return once_usage(fault, "workspace", "--workspace takes 1 to 200 bytes of UTF-8 text");
    if (source->auth != SOURCE_OPEN &&
        (asked->user.bytes == 0 || asked->user.bytes > JWT_SUB_MAX || !utf8_is_text(asked->user)))
        return once_usage(fault, "user", "--user takes 1 to 200 bytes of UTF-8 text");
    return ST_OK;
}

static enum status once_answer(struct once *once, const struct feed_once *asked, struct buffer *out,
                               struct fault *fault)
{
    const struct feed_setup *setup = once->setup;
    struct ask ask;
    struct db_result *result = NULL;
    struct parameters_input input = {
        .parameters = asked->parameters,
        .count = asked->count,
        .workspace_id = asked->workspace,
        .user_id = asked->user,
        .statements = once->feed->statements,
        .keys = &once->keys.cursor,
        .scan_max = (int64_t)setup->http->scan_max,
        .cursor_ttl_us = setup->settings->cursor.cursor_ttl_ms * 1000,
        .now_us = clock_wall_us(&setup->clock),
    };
    enum status status = parameters_read(&input, &ask, fault);
    if (status == ST_OK)
        status = once_read(once, &ask.query, &result, fault);
    if (status == ST_OK)
        status = once_write(once, &ask, result, out, fault);
    db_result_free(result);
    return status;
}

enum status feed_page(const struct feed_setup *setup, const struct feed_once *asked, struct buffer *out,
                      struct fault *fault)
{
    struct once *once = once_new(setup, fault);
    if (once == NULL)
        return ST_FATAL;
    enum status status = once_find(once, asked->feed, fault);
    if (status == ST_OK)
        status = once_scope(once->feed->source, asked, fault);
    if (status == ST_OK)
        status = keys_load(setup->settings, &once->keys, fault);
    if (status == ST_OK)
        status = once_answer(once, asked, out, fault);
    once_free(once);
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
