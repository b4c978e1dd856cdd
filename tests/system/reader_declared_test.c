/* Feeds by configuration, end to end: the shipped examples as they stand in config/ and sql/examples; a
 * reader that will not start, and starts once what it prints was run; and what belfry_stamp is for. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader_steps.h"

enum { TEXT_MAX = 64 * 1024, ROWS = 53, WALK_MAX = ROWS * 48 };

static void read_file(const char *path, char *text)
{
    char whole[WORLD_PATH_MAX];
    snprintf(whole, sizeof whole, "%s/%s", BELFRY_SOURCE_DIR, path);
    FILE *file = fopen(whole, "r");
    cr_assert_not_null(file, "%s", whole);
    size_t bytes = fread(text, 1, TEXT_MAX - 1, file);
    cr_assert_lt(bytes, TEXT_MAX - 1);
    text[bytes] = '\0';
    fclose(file);
}

static void run_file(struct client *c, const char *path)
{
    static char sql[TEXT_MAX];
    read_file(path, sql);
    world_exec(&c->w, "%s", sql);
}

/* The [feed.…] sections of the shipped file, which are comments there. */
static const char *shipped_feeds(void)
{
    static char ini[TEXT_MAX], feeds[TEXT_MAX];
    bool within = false;
    read_file("config/belfry-reader.ini", ini);
    for (char *line = strtok(ini, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        within = strncmp(line, "#[feed.", 7) == 0 || (within && line[0] == '#' && line[1] != ' ');
        if (within)
            strcat(strcat(feeds, line + 1), "\n");
    }
    return feeds;
}

/* A page of any feed, with c's token; NULL authorization in c: with none. */
static json_t *get_page(const struct client *c, const char *path, const char *query)
{
    char url[URL_MAX];
    struct world_reply reply;
    const char *headers[] = {c->authorization[0] == '\0' ? NULL : c->authorization, NULL};
    snprintf(url, sizeof url, "%s%s?%s", c->base, path, query);
    world_http("GET", url, headers, NULL, &reply);
    cr_assert_eq(reply.status, 200, "%s: %ld %s", url, reply.status, reply.body);
    json_t *page = json_loadb(reply.body, reply.body_bytes, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(page, "%s", reply.body);
    world_reply_done(&reply);
    return page;
}

/* Adds the ids of a page, a blank before each; how many. */
static int add_ids(const json_t *page, const char *key, char *ids)
{
    size_t i;
    json_t *item, *items = json_object_get(page, key);
    cr_assert(json_is_array(items));
    json_array_foreach(items, i, item)
    {
        const json_t *id = json_object_get(item, "id");
        char *end = ids + strlen(ids);
        if (json_is_integer(id))
            sprintf(end, " %lld", (long long)json_integer_value(id));
        else
            sprintf(end, " %s", json_string_value(id));
    }
    return (int)json_array_size(items);
}

/* From the head to the end: each row once, in order. sql gives the ids, a blank before each. */
static void walk_whole(struct client *c, const char *path, const char *key, const char *more, const char *sql)
{
    static char found[WALK_MAX], wanted[WALK_MAX];
    char query[URL_MAX - 256], cursor[CURSOR_MAX] = "";
    int pages = 0;
    found[0] = '\0';
    do {
        snprintf(query, sizeof query, "limit=7%s&cursor=%s", more, cursor);
        json_t *page = get_page(c, path, query);
        cr_assert_leq(add_ids(page, key, found), 7);
        snprintf(cursor, sizeof cursor, "%s", page_cursor(page));
        cr_assert_eq(page_has_more(page), cursor[0] != '\0');
        cr_assert_null(json_object_get(page, "gapless"), "its rows are stamped and its bound is there");
        json_decref(page);
        cr_assert_lt(pages++, 100);
    } while (cursor[0] != '\0');
    world_text(&c->w, wanted, sizeof wanted, "%s", sql);
    cr_assert_str_eq(found, wanted, "%s%s: %s, not %s", path, more, found, wanted);
    printf("%s%s: %d pages, every row once and in order\n", path, more, pages);
}

static void members_of(json_t *object, char *names)
{
    const char *name;
    json_t *value;
    names[0] = '\0';
    json_object_foreach(object, name, value) strcat(strcat(names, names[0] == '\0' ? "" : ","), name);
}

#define ACTIVITY "/v1/workspaces/w/feeds/activity"
#define IDS_OF(table, scope)                                                                                 \
    "SELECT string_agg(' ' || id, '' ORDER BY created_at DESC, id DESC) FROM " table " " scope

static void put_examples(struct client *c)
{
    run_file(c, "sql/examples/activity.sql");
    run_file(c, "sql/examples/posts.sql");
    world_exec(&c->w,
               "INSERT INTO activity_events (workspace_id, event_type) SELECT CASE WHEN i %% 4 = 0 THEN 'x'"
               " ELSE 'w' END, 'type.' || i %% 3 FROM generate_series(1, %d) AS i",
               ROWS);
    world_exec(
        &c->w,
        "INSERT INTO posts (author, body) SELECT 'a' || i, 'post \"' || i FROM generate_series(1, %d) AS i;"
        " INSERT INTO posts (id, author, body) VALUES (9007199254740993, 'big', 'beyond 2^53')",
        ROWS);
    /* As the reconciler does when it sees a stamped relation; reader_1_gapless has the real one. */
    world_exec(&c->w, "INSERT INTO settled SELECT feed, clock_timestamp() FROM belfry_stamped");
}

static void check_activity(struct client *c)
{
    char names[256];
    walk_whole(c, ACTIVITY, "items", "", IDS_OF("activity_events", "WHERE workspace_id = 'w'"));
    walk_whole(c, ACTIVITY, "items", "&event_type=type.1",
               IDS_OF("activity_events", "WHERE workspace_id = 'w' AND event_type = 'type.1'"));
    walk_whole(c, ACTIVITY, "items", "&contract=boundary",
               IDS_OF("activity_events", "WHERE workspace_id = 'w'"));
    json_t *page = get_page(c, ACTIVITY, "limit=1");
    members_of(json_array_get(json_object_get(page, "items"), 0), names);
    cr_expect_str_eq(names, "id,created_at,event_type");
    json_decref(page);
    client_refused(c, "/v1/feeds/activity", 404, "not_found");
    client_refused(c, ACTIVITY "?category=a", 400, "unknown_parameter");
    client_refused(c, ACTIVITY "?unread=true", 400, "unknown_parameter");
    client_refused(c, "/v1/workspaces/x/feeds/activity", 403, "not_a_member");
    client_be(c, "stranger");
    client_refused(c, ACTIVITY, 403, "not_a_member");
}

/* What a path of its own has in common with every feed's: ETag and 304, Link, HEAD, methods. */
static void check_head_of_posts(struct client *c)
{
    struct world_reply reply;
    char url[URL_MAX], match[64] = "If-None-Match: ";
    snprintf(url, sizeof url, "%s/posts?limit=1", c->base);
    world_http("HEAD", url, NULL, NULL, &reply);
    cr_expect_eq(reply.status, 200);
    cr_expect_not_null(strstr(reply.headers, "Cache-Control: private, no-cache"), "%s", reply.headers);
    cr_expect_not_null(strstr(reply.headers, "Link: <?limit=1&cursor="), "%s", reply.headers);
    const char *tag = strstr(reply.headers, "ETag: W/");
    cr_assert_not_null(tag, "%s", reply.headers);
    tag += strlen("ETag: ");
    snprintf(match + strlen(match), sizeof match - strlen(match), "%.*s", (int)strcspn(tag, "\r\n"), tag);
    world_reply_done(&reply);
    world_http("GET", url, (const char *[]){match, NULL}, NULL, &reply);
    printf("posts: %s: %ld\n", match, reply.status);
    cr_expect_eq(reply.status, 304);
    world_reply_done(&reply);
    world_http("DELETE", url, NULL, NULL, &reply);
    cr_expect_eq(reply.status, 405);
    cr_expect_not_null(strstr(reply.headers, "Allow: GET, HEAD"), "%s", reply.headers);
    world_reply_done(&reply);
}

static void check_posts(struct client *c)
{
    char names[256];
    c->authorization[0] = '\0';
    walk_whole(c, "/posts", "posts", "", IDS_OF("posts", ""));
    walk_whole(c, "/v1/feeds/posts", "posts", "", IDS_OF("posts", ""));
    json_t *page = get_page(c, "/posts", "limit=100");
    members_of(page, names);
    cr_expect_str_eq(names, "posts,next_cursor,prev_cursor,has_more,contract");
    cr_expect_str_eq(page_cursor(page), "", "the end");
    json_t *first = json_array_get(json_object_get(page, "posts"), 0);
    members_of(first, names);
    cr_expect_str_eq(names, "id,author,body,created_at");
    cr_expect_eq(json_integer_value(json_object_get(first, "id")), 9007199254740993);
    json_decref(page);
    page = get_page(c, "/v1/feeds/strings", "limit=1");
    const char *id =
        json_string_value(json_object_get(json_array_get(json_object_get(page, "items"), 0), "id"));
    cr_assert_not_null(id, "id_json is string unless given");
    cr_expect_str_eq(id, "9007199254740993");
    json_decref(page);
    walk_whole(c, "/v1/feeds/strings", "items", "", IDS_OF("posts", ""));
    client_refused(c, "/posts?contract=boundary", 400, "contract_not_offered");
    client_refused(c, "/v1/workspaces/w/feeds/posts", 404, "not_found");
    client_refused(c, "/postsx", 404, "not_found");
    check_head_of_posts(c);
}

/* The same by the command line; its exit code. */
static int once(struct client *c, const char *const *argv, char *output)
{
    int code = world_run(&c->w, "src/bin/belfry-reader", argv, output, TEXT_MAX);
    printf("page --feed %s: exit %d, %.60s…\n", argv[4], code, output);
    return code;
}

Test(reader, declared)
{
    static struct client c;
    static char extra[TEXT_MAX], output[TEXT_MAX];
    client_open(&c, "reader_declared");
    child_stop(c.reader);
    put_examples(&c);
    snprintf(extra, sizeof extra,
             "%s[feed.strings]\nrelation = public.posts\ncolumns = created_at id body\nid_type ="
             " bigint\nauth = none\nfilters = author\n",
             shipped_feeds());
    c.reader = world_reader(&c.w, extra, c.base);
    cr_expect(child_log_has(c.reader, "public.activity_events"), "says what it serves");
    world_write_reader_ini(&c.w, extra, c.ini);
    check_activity(&c);
    check_posts(&c);
    const char *posts[] = {"page", "-F", c.ini, "--feed", "posts", "--limit", "1", NULL};
    cr_expect_eq(once(&c, posts, output), 0);
    cr_expect_not_null(strstr(output, "{\"posts\":[{\"id\":9007199254740993,"), "%s", output);
    const char *activity[] = {"page",        "-F", c.ini,    "--feed", "activity",
                              "--workspace", "w",  "--user", "u1",     NULL};
    cr_expect_eq(once(&c, activity, output), 0);
    const char *none[] = {"page", "-F", c.ini, "--feed", "none", "--workspace", "w", "--user", "u1", NULL};
    cr_expect_eq(once(&c, none, output), 2);
    client_close(&c);
}

/* ---- refused ------------------------------------------------------------------------------------------- */

/* A reader with this text behind its ini; its exit code, and the last line of its log. */
static int start_code(struct client *c, const char *extra, const char *flag, char *last)
{
    static char output[TEXT_MAX], log[TEXT_MAX];
    char ini[WORLD_PATH_MAX];
    world_write_reader_ini(&c->w, extra, ini);
    const char *argv[] = {"-F", ini, flag, NULL};
    int code = world_run(&c->w, "src/bin/belfry-reader", argv, output, sizeof output);
    FILE *file = fopen(c->w.children[c->w.child_count - 1].log, "r");
    cr_assert_not_null(file);
    last[0] = '\0';
    while (fgets(log, sizeof log, file) != NULL)
        snprintf(last, TEXT_MAX, "%s", log);
    fclose(file);
    return code;
}

Test(reader, declared_refused)
{
    static struct client c;
    static char last[TEXT_MAX];
    static const char bare[] =
        "[feed.posts]\nrelation = posts\ncolumns = id, body, created_at\nid_type = bigint\n"
        "path = /posts\nauth = none\n";
    int steps = 0;
    client_open(&c, "reader_refused");
    child_stop(c.reader);
    world_exec(
        &c.w,
        "CREATE TABLE posts (id bigint NOT NULL, body text, created_at timestamptz NOT NULL DEFAULT now());"
        " GRANT SELECT ON posts TO belfry_reader; INSERT INTO posts VALUES (7, 'x')");
    cr_expect_eq(
        start_code(&c, "[feed.posts]\nrelation = posts\ncolumns = id created_at\npath = /v1/x\nauth = none\n",
                   "--check-config", last),
        2, "without a database");
    printf("--check-config: %s", last);
    cr_expect_not_null(strstr(last, ": [feed.posts] path: /v1/x is the reader's own"), "%s", last);
    cr_expect_not_null(strstr(last, ".ini:"), "where it stands: %s", last);
    cr_expect_eq(start_code(&c, "[feed.posts]\nrelatio = posts\n", "page", last), 2, "a page neither");
    cr_expect_not_null(strstr(last, ".ini:"), "%s", last);
    cr_expect_eq(
        start_code(&c,
                   "[feed.posts]\nrelation = posts\ncolumns = id created_at\nworkspace_column = body\n"
                   "auth = user\n",
                   "--check-config", last),
        0);
    cr_expect(child_log_has(&c.w.children[c.w.child_count - 1], "whoever has a token may read each of them"));
    cr_expect_eq(start_code(&c, bare, "--check-config", last), 0, "%s", last);
    while (start_code(&c, bare, steps == 2 ? "--check-config" : NULL, last) == 2) {
        printf("exit 2: %s", last);
        char *run = strstr(last, "Run: ");
        cr_assert_not_null(run, "%s", last);
        run[strcspn(run, "\"")] = '\0';
        cr_assert_lt(steps++, 2, "%s", last);
        world_exec(&c.w, "%s", run + strlen("Run: "));
    }
    cr_expect_eq(steps, 2, "one unique index, one for the pages");
    c.reader = world_reader(&c.w, bare, c.base);
    c.authorization[0] = '\0';
    json_t *page = get_page(&c, "/posts", "");
    cr_expect_eq(page_count(page), 1);
    cr_expect(json_is_false(json_object_get(page, "gapless")), "nothing stamps it");
    json_decref(page);
    /* A right taken away later: 503, never an empty page; given back, it goes on by itself. */
    world_exec(&c.w, "REVOKE SELECT ON posts FROM belfry_reader");
    client_refused(&c, "/posts", 503, "unavailable");
    cr_expect(child_log_has(c.reader, "permission denied for table posts"), "says why");
    world_exec(&c.w, "GRANT SELECT ON posts TO belfry_reader");
    json_decref(get_page(&c, "/posts", ""));
    client_close(&c);
}

/* ---- gapless ------------------------------------------------------------------------------------------- */

enum { ROUNDS = 5 };

struct walk {
    const char *path;
    char cursor[CURSOR_MAX], ids[WALK_MAX];
    int shown;
    bool gapless;
};

static void walk_on(struct client *c, struct walk *walk)
{
    bool more = true;
    while (more) {
        char query[URL_MAX - 256];
        snprintf(query, sizeof query, "limit=3&cursor=%s", walk->cursor);
        json_t *page = get_page(c, walk->path, query);
        walk->shown += add_ids(page, "items", walk->ids);
        walk->gapless = json_object_get(page, "gapless") == NULL;
        more = page_has_more(page);
        snprintf(walk->cursor, CURSOR_MAX, "%s", page_cursor(page));
        json_decref(page);
    }
}

static void walk_begin(struct client *c, struct walk *walk)
{
    json_t *page = get_page(c, walk->path, "");
    cr_assert_eq(page_count(page), 0);
    snprintf(walk->cursor, CURSOR_MAX, "%s", prev_cursor(page));
    json_decref(page);
}

static bool walk_has(const struct walk *walk, int id)
{
    char text[16];
    snprintf(text, sizeof text, " %d ", id);
    return strstr(walk->ids, text) != NULL;
}

/* Walks both until the one has shown this row. */
static void walk_until(struct client *c, struct walk *walks, const struct walk *one, int id)
{
    for (int i = 0; i < 1000; i++) {
        for (int j = 0; j < 2; j++) {
            walk_on(c, &walks[j]);
            strcat(walks[j].ids, " "); /* ids stand between blanks */
        }
        if (walk_has(one, id))
            return;
        world_sleep_ms(20);
    }
    cr_assert_fail("%s never shows %d: %s", one->path, id, one->ids);
}

/* Two tables alike, of which one is stamped. In each round a transaction writes, another writes and commits
 * behind it, clients see that, and only then the first commits. */
Test(reader, gapless)
{
    static struct client c;
    static struct walk walks[2] = {{.path = "/v1/feeds/stamped"}, {.path = "/v1/feeds/loose"}};
    struct walk *stamped = &walks[0], *loose = &walks[1];
    char sql[256];
    client_open(&c, "reader_gapless");
    child_stop(c.reader);
    c.authorization[0] = '\0';
    world_topics(&c.w, 1);
    world_simulator(&c.w, NULL);
    world_exec(
        &c.w,
        "CREATE TABLE loose (id bigint PRIMARY KEY, created_at timestamptz NOT NULL DEFAULT now());"
        " CREATE INDEX ON loose (created_at DESC, id DESC); CREATE TABLE stamped (LIKE loose INCLUDING ALL);"
        " GRANT SELECT ON loose, stamped TO belfry_reader; CREATE TRIGGER zz_belfry_stamp BEFORE INSERT ON"
        " stamped FOR EACH ROW EXECUTE FUNCTION belfry_stamp()");
    struct child *reconciler = world_reconciler(&c.w, NULL);
    world_wait_count(&c.w, 1, "SELECT count(*) FROM settled WHERE feed = 'public.stamped'");
    c.reader =
        world_reader(&c.w,
                     "[http]\nsettle_max = 200ms\n[feed.stamped]\nrelation = stamped\nid_type = bigint\n"
                     "columns = id created_at\nauth = none\n[feed.loose]\nrelation = loose\nid_type ="
                     " bigint\ncolumns = id created_at\nauth = none\n",
                     c.base);
    for (int j = 0; j < 2; j++)
        walk_begin(&c, &walks[j]);
    for (int i = 1; i <= ROUNDS; i++) {
        snprintf(sql, sizeof sql,
                 "WITH s AS (INSERT INTO stamped (id) VALUES (%d)) INSERT INTO loose (id) VALUES (%d)",
                 10 * i, 10 * i);
        struct db *late = late_open(&c, sql);
        world_exec(&c.w, "INSERT INTO stamped (id) VALUES (%d); INSERT INTO loose (id) VALUES (%d)",
                   10 * i + 1, 10 * i + 1);
        walk_until(&c, walks, loose, 10 * i + 1);
        cr_expect_not(walk_has(stamped, 10 * i + 1), "held back: something older may still come");
        late_commit(late);
        walk_until(&c, walks, stamped, 10 * i + 1);
        cr_expect(walk_has(stamped, 10 * i), "round %d: %s", i, stamped->ids);
        cr_expect_not(walk_has(loose, 10 * i), "the test shows nothing");
    }
    for (int j = 0; j < 2; j++)
        printf("%s: %d of %d rows shown, gapless %s\n", walks[j].path, walks[j].shown, 2 * ROUNDS,
               walks[j].gapless ? "(nothing said)" : "false");
    cr_expect_eq(stamped->shown, 2 * ROUNDS, "each once");
    cr_expect(stamped->gapless);
    cr_expect_eq(loose->shown, ROUNDS, "what committed late was passed");
    cr_expect_not(loose->gapless);
    /* The relation goes; the reconciler does not. */
    world_exec(&c.w, "DROP TABLE stamped");
    world_exec(&c.w, "CREATE TABLE bound AS SELECT bound FROM settled WHERE feed = 'notifications'");
    world_wait_count(&c.w, 1,
                     "SELECT count(*) FROM settled, bound WHERE feed = 'notifications' AND settled.bound >"
                     " bound.bound");
    cr_expect(child_metric(reconciler, "belfry_settle_age_seconds") < 30);
    cr_expect(child_running(reconciler));
    client_close(&c);
}
