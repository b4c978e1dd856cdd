/* The OpenAPI document against the real reader, with the two shipped example feeds: tests/contracts/openapi.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

enum { PATCH_BYTES_MAX = 8192, TOKEN_MAX = 2048, OUTPUT_MAX = 32 * 1024, RUN_S = 400 };

/* The feeds as config/belfry-reader.ini has them, commented out; no 429 before what is asked was looked at.
 */
static const char feeds[] = "[exports]\n"
                            "open_max = 1000\n"
                            "stored_max = 10000\n"
                            "[feed.activity]\n"
                            "relation = activity_events\n"
                            "workspace_column = workspace_id\n"
                            "columns = id, created_at, event_type\n"
                            "filters = event_type:text\n"
                            "xid_column = inserted_xid\n"
                            "[feed.posts]\n"
                            "relation = posts\n"
                            "columns = id, author, body, created_at\n"
                            "id_type = bigint\n"
                            "id_json = number\n"
                            "items_key = posts\n"
                            "path = /posts\n"
                            "auth = none\n";

static void run_sql(struct world *w, const char *name)
{
    char path[WORLD_PATH_MAX], text[PATCH_BYTES_MAX];
    snprintf(path, sizeof path, BELFRY_SOURCE_DIR "/sql/examples/%s.sql", name);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    world_exec(w, "%s", text);
}

/* What the document's examples show, and enough around it for pages to go on. */
static void fill(struct world *w)
{
    run_sql(w, "activity");
    run_sql(w, "posts");
    world_exec(w, "SELECT belfry_set_member('acme', 'user-0001', 'member')");
    world_exec(
        w,
        "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, category, title, data,"
        " created_at) SELECT ('0199d0a2-7c00-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'acme',"
        " 'user-0001', CASE n %% 2 WHEN 0 THEN 'comment.mention' ELSE 'meeting.assigned' END,"
        " CASE n %% 2 WHEN 0 THEN 'comments' ELSE 'meetings' END, 'title ' || n,"
        " '{\"meeting_id\":\"9007199254740993\"}',"
        " timestamptz '2026-03-21 09:00:00.123456Z' + n * interval '1 s' FROM generate_series(1, 300) AS n");
    world_exec(w, "INSERT INTO activity_events (workspace_id, event_type) SELECT 'acme', 'type.' || n %% 3"
                  " FROM generate_series(1, 300) AS n");
    world_exec(w,
               "INSERT INTO posts (author, body, created_at) SELECT 'author ' || n %% 7, 'body ' || n,"
               " timestamptz '2026-03-21 09:00:00Z' + n * interval '1 s' FROM generate_series(1, 300) AS n");
    /* As the reconciler would: what it moves is gapless. */
    world_exec(w, "INSERT INTO settled (feed, bound) SELECT feed, clock_timestamp() FROM belfry_stamped"
                  " ON CONFLICT DO NOTHING");
    world_exec(w, "UPDATE settled SET bound = '2026-03-21 09:04:00Z' WHERE feed = 'notifications'");
}

/* A filter's value in a body has its type: 5 is no category, and "true" is not true. */
static void refuse_other_types(const char *base, const char *token)
{
    static const char *const bodies[] = {"{\"filters\":{\"category\":5}}",
                                         "{\"filters\":{\"category\":true}}",
                                         "{\"filters\":{\"unread\":\"true\"}}"};
    char url[256], authorization[TOKEN_MAX + 32];
    const char *headers[] = {authorization, NULL};
    snprintf(authorization, sizeof authorization, "Authorization: Bearer %s", token);
    snprintf(url, sizeof url, "%s/v1/workspaces/acme/feeds/notifications/exports", base);
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        struct world_reply reply;
        world_http("POST", url, headers, bodies[i], &reply);
        cr_assert(reply.status == 400 && strstr(reply.body, "invalid_body") != NULL, "%s: %s", bodies[i],
                  reply.body);
        world_reply_done(&reply);
    }
}

Test(reader, openapi)
{
    struct world w;
    char base[64], ini[WORLD_PATH_MAX], token[TOKEN_MAX];
    char *output = malloc(OUTPUT_MAX);
    cr_assert_not_null(output);
    world_open(&w, "openapi");
    world_database(&w);
    fill(&w);
    struct child *reader = world_reader(&w, feeds, base);
    world_write_reader_ini(&w, NULL, ini);
    const char *mint[] = {"token", "-F", ini, "--sub", "user-0001", NULL};
    cr_assert_eq(world_run(&w, "src/bin/belfry-reader", mint, token, sizeof token), 0);
    token[strcspn(token, "\r\n")] = '\0';
    refuse_other_types(base, token);
    const char *argv[] = {base, token, BELFRY_SOURCE_DIR "/config/contracts", BELFRY_BUILD_DIR "/contracts",
                          NULL};
    struct child *asking = child_start(&w, BELFRY_SOURCE_DIR "/tests/contracts/openapi", argv, NULL);
    int code = child_wait(asking, RUN_S);
    FILE *file = fopen(asking->output, "r");
    cr_assert_not_null(file);
    output[fread(output, 1, OUTPUT_MAX - 1, file)] = '\0';
    fclose(file);
    printf("%s", output);
    cr_assert_eq(code, 0, "%s", output);
    child_stop(reader);
    free(output);
    world_close(&w);
}
