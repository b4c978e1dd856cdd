/* [feed.NAME] as it stands in a file: what it means, and each way it can be wrong. */
#include "feed/declare.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    struct config_named feeds;
};

static const struct config_section sections[] = {
    {.name = "feed", .kind = CONFIG_NAMED, .offset = offsetof(struct settings, feeds), .help = "a feed"}};
static const struct config_table table = {.sections = sections, .section_count = 1};

/* A file of this text, read. */
struct read {
    struct config config;
    struct arena arena;
    struct declared declared;
    struct fault fault;
    enum status status;
};

static void read_text(struct read *read, const char *text)
{
    char path[] = "/tmp/belfry-declare-XXXXXX";
    struct settings settings;
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    cr_assert_not_null(file);
    cr_assert_geq(fputs(text, file), 0);
    cr_assert_eq(fclose(file), 0);
    memset(read, 0, sizeof *read);
    config_init(&read->config, &table);
    const struct config_input input = {.path = path};
    cr_assert_eq(config_load(&read->config, &input, &settings, &read->fault), ST_OK, "%s", read->fault.text);
    remove(path);
    arena_init(&read->arena, DECLARE_ARENA_BYTES_MAX);
    read->status = declare_feeds(&settings.feeds, &read->arena, &read->declared, &read->fault);
    if (read->status != ST_OK)
        config_blame(&read->config, &read->fault);
    config_done(&read->config); /* everything is a copy */
}

static void read_done(struct read *read)
{
    arena_done(&read->arena);
}

Test(declare, every_key_is_understood)
{
    struct read read;
    read_text(&read,
              "[feed.all_of-1]\nrelation = app.Events\nworkspace_column = workspaceId\nuser_column = u\n"
              "columns = id, created_at title,body\nfilters = kind, level:integer title:text\n"
              "id_type = bigint\nid_json = number\nitems_key = rows\nauth = member\n"
              "roles = admin, Betriebsrät\nroles_column = who\nxid_column = x\n"
              "[feed.least]\nrelation = t\ncolumns = created_at id\nauth = user\nuser_column =\n"
              "path = /a-b/c.d\n");
    cr_assert_eq(read.status, ST_OK, "%s", read.fault.text);
    cr_assert_eq(read.declared.count, 2);
    const struct source_declaration *d = &read.declared.feeds[0];
    cr_expect_str_eq(d->name, "all_of-1");
    cr_expect_str_eq(d->schema, "app");
    cr_expect_str_eq(d->relation, "Events");
    cr_expect_str_eq(d->workspace_column, "workspaceId");
    cr_expect_str_eq(d->user_column, "u");
    cr_expect_eq(d->column_count, 4);
    cr_expect_str_eq(d->columns[2], "title");
    cr_expect_eq(d->filter_count, 3);
    cr_expect_not(d->filters[0].typed);
    cr_expect(d->filters[1].typed && d->filters[1].type == SOURCE_INTEGER);
    cr_expect_str_eq(d->filters[1].column, "level");
    cr_expect(d->filters[2].typed && d->filters[2].type == SOURCE_TEXT);
    cr_expect_eq(d->id_type, SOURCE_BIGINT);
    cr_expect(d->id_number);
    cr_expect_str_eq(d->items_key, "rows");
    cr_expect_eq(d->auth, SOURCE_MEMBER);
    cr_expect_eq(d->role_count, 2);
    cr_expect_str_eq(d->roles[1], "Betriebsrät");
    cr_expect_str_eq(d->roles_column, "who");
    cr_expect_str_eq(d->xid_column, "x");
    cr_expect_null(d->path);
    d = &read.declared.feeds[1];
    cr_expect_null(d->schema);
    cr_expect_null(d->user_column, "empty is not given");
    cr_expect_eq(d->id_type, SOURCE_UUID);
    cr_expect_not(d->id_number);
    cr_expect_str_eq(d->items_key, "items");
    cr_expect_str_eq(d->path, "/a-b/c.d");
    cr_expect_eq(d->auth, SOURCE_USER);
    cr_expect_null(d->xid_column);
    read_done(&read);
}

/* What is good, and lines that spoil it: the text says so. */
#define GOOD "[feed.f]\nrelation = t\ncolumns = id, created_at\n"
#define OPEN GOOD "auth = none\n"

Test(declare, each_refusal_names_its_key)
{
    static const struct {
        const char *text, *field, *says;
    } rows[] = {
        {"[feed.notifications]\n", "feed.notifications",
         ":1: [feed.notifications]: notifications is the built-in"},
        {"[feed.Big]\n", "feed.Big", "1 to 63 of a-z, 0-9, _ and -"},
        {"[feed.a.b]\n", "feed.a.b", "1 to 63"},
        {OPEN "colums = x\n", "feed.f", "unknown key \"colums\" in line 5; did you mean columns?"},
        {OPEN "limit = 3\n", "feed.f", "unknown key \"limit\""},
        {"[feed.f]\ncolumns = id\n", "feed.f.relation", ":1: [feed.f] relation: must be given"},
        {"[feed.f]\nrelation = a.b.c\n", "feed.f.relation",
         ":2: [feed.f] relation: takes table or schema.table"},
        {"[feed.f]\nrelation = \"T\"\n", "feed.f.relation", "no quotes"},
        {"[feed.f]\nrelation = t; DROP TABLE t\n", "feed.f.relation", "takes table"},
        {"[feed.f]\nrelation = .t\n", "feed.f.relation", "takes table"},
        {"[feed.f]\nrelation = t\n", "feed.f.columns", "must be given"},
        {"[feed.f]\nrelation = t\ncolumns = id, a*, created_at\n", "feed.f.columns", "\"a*\" is no column"},
        {"[feed.f]\nrelation = t\ncolumns = id, created_at, id\n", "feed.f.columns", "id stands there twice"},
        {"[feed.f]\nrelation = t\ncolumns = id, at\n", "feed.f.columns", "created_at must be among them"},
        {"[feed.f]\nrelation = t\ncolumns = created_at\n", "feed.f.columns", "id must be among them"},
        {OPEN "filters = cursor\n", "feed.f.filters", "cursor is a parameter of every feed"},
        {OPEN "filters = a, a\n", "feed.f.filters", "a stands there twice"},
        {OPEN "filters = a:money\n", "feed.f.filters", "text, integer, bigint, boolean or uuid"},
        {OPEN "filters = a:\n", "feed.f.filters", "a filter's type is"},
        {OPEN "filters = :text\n", "feed.f.filters", "no column"},
        {OPEN "filters = a b c d e f g h i\n", "feed.f.filters", "at most 8"},
        {OPEN "id_type = int\n", "feed.f.id_type", "takes one of uuid, bigint, text, not \"int\""},
        {OPEN "id_json = number\n", "feed.f.id_json",
         "number goes with id_type = bigint only, this one is uuid"},
        {OPEN "id_type = text\nid_json = number\n", "feed.f.id_json", "this one is text"},
        {OPEN "id_json = integer\n", "feed.f.id_json", "takes one of string, number"},
        {OPEN "items_key = next_cursor\n", "feed.f.items_key", "another member of every page"},
        {OPEN "items_key = a\"b\n", "feed.f.items_key", "a name of letters"},
        {OPEN "path = posts\n", "feed.f.path", "takes a path such as /posts"},
        {OPEN "path = /posts/\n", "feed.f.path", "no / at its end"},
        {OPEN "path = /a//b\n", "feed.f.path", "takes a path"},
        {OPEN "path = /a/../b\n", "feed.f.path", "takes a path"},
        {OPEN "path = /a%20b\n", "feed.f.path", "takes a path"},
        {OPEN "path = /a?b\n", "feed.f.path", "takes a path"},
        {OPEN "path = /v1/feeds/f\n", "feed.f.path", "/v1/feeds/f is the reader's own"},
        {OPEN "path = /v1\n", "feed.f.path", "the reader's own"},
        {OPEN "path = /livez\n", "feed.f.path", "the reader's own"},
        {OPEN "path = /readyz\n", "feed.f.path", "the reader's own"},
        {OPEN "path = /metrics\n", "feed.f.path", "the reader's own"},
        {OPEN "path = /openapi.json\n", "feed.f.path", "the reader's own"},
        {OPEN "path = /p\nworkspace_column = w\n", "feed.f.path", "no place for the workspace"},
        {OPEN "path = /p\n[feed.g]\nrelation = t\ncolumns = id created_at\nauth = none\npath = /p\n",
         "feed.g.path", ":10: [feed.g] path: /p is the path of [feed.f] already"},
        {GOOD, "feed.f.auth", ":1: [feed.f] auth: member (the default) asks for membership of a workspace"},
        {GOOD "auth = member\n", "feed.f.auth", "give workspace_column"},
        {GOOD "auth = everybody\n", "feed.f.auth", "takes one of member, user, none"},
        {OPEN "user_column = u\n", "feed.f.user_column", "nobody is known to be the user"},
        {OPEN "roles = admin\n", "feed.f.roles", "a role is a member's, and this feed has auth = none"},
        {GOOD "auth = user\nroles_column = r\n", "feed.f.roles_column", "auth = user"},
        {GOOD "workspace_column = w\nroles = a, a\n", "feed.f.roles", "a stands there twice"},
        {GOOD "workspace_column = w\nroles = \xff\n", "feed.f.roles", "UTF-8"},
        {GOOD "workspace_column = w x\n", "feed.f.workspace_column", "takes one column"},
        {GOOD "workspace_column = w\nuser_column = w\n", "feed.f.user_column",
         "w is the workspace_column already"},
        {OPEN "xid_column = 1x\n", "feed.f.xid_column", "takes one column"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct read read;
        read_text(&read, rows[i].text);
        cr_expect_eq(read.status, ST_REJECT, "row %zu: %s", i, rows[i].text);
        cr_expect_str_eq(read.fault.code, "config");
        cr_expect_str_eq(read.fault.field, rows[i].field, "row %zu: %s, %s", i, read.fault.field,
                         read.fault.text);
        cr_expect_not_null(strstr(read.fault.text, rows[i].says), "row %zu: %s", i, read.fault.text);
        cr_expect_not_null(strstr(read.fault.text, "[feed."), "row %zu: %s", i, read.fault.text);
        printf("%s\n", read.fault.text);
        read_done(&read);
    }
}

/* The examples of the shipped file are comments, as it must start without their tables; they are good ones.
 */
Test(declare, shipped_examples)
{
    static char file[64 * 1024], text[sizeof file];
    FILE *ini = fopen(BELFRY_SOURCE_DIR "/config/belfry-reader.ini", "r");
    cr_assert_not_null(ini);
    file[fread(file, 1, sizeof file - 1, ini)] = '\0';
    fclose(ini);
    bool within = false;
    for (char *line = strtok(file, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        within = strncmp(line, "#[feed.", 7) == 0 || (within && line[0] == '#' && line[1] != ' ');
        if (within)
            strcat(strcat(text, line + 1), "\n");
    }
    struct read read;
    read_text(&read, text);
    cr_assert_eq(read.status, ST_OK, "%s", read.fault.text);
    cr_assert_eq(read.declared.count, 2, "%s", text);
    cr_expect_str_eq(read.declared.feeds[0].name, "activity");
    cr_expect_str_eq(read.declared.feeds[1].path, "/posts");
    read_done(&read);
}
