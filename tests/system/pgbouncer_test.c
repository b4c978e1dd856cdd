/* Line 6 of issue "The dispatcher at full strength": all three binaries behind a pgbouncer in transaction
 * mode, with so few server sessions that every statement may find another one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/harness.h"
#include "system/ledger.h"
#include "system/reader_client.h"

enum { RECORDS = 2000, SERVER_SESSIONS = 2 };

static const char pgbouncer_path[] = "/usr/sbin/pgbouncer";

struct bouncer {
    char folder[64]; /* in /tmp: its user must be able to walk there */
    int port;
    struct child *child;
};

static void write_file(const struct bouncer *bouncer, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", bouncer->folder, name);
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* host=… port=… of the server behind the superuser's URI. */
static void server_of(const struct world *w, char *text, size_t size)
{
    const char *at = strchr(w->superuser_uri, '@');
    cr_assert_not_null(at, "no host in %s", w->superuser_uri);
    int host = (int)strcspn(at + 1, ":/"), port = atoi(at + 1 + host + 1);
    snprintf(text, size, "host=%.*s port=%d", host, at + 1, at[1 + host] == ':' ? port : 5432);
}

static void bouncer_start(struct world *w, struct bouncer *bouncer)
{
    char server[128], text[1024], ini[128];
    cr_assert_eq(access(pgbouncer_path, X_OK), 0, "no %s: deploy/install-packages test", pgbouncer_path);
    snprintf(bouncer->folder, sizeof bouncer->folder, "/tmp/belfry-pgbouncer.XXXXXX");
    cr_assert(mkdtemp(bouncer->folder) != NULL && chmod(bouncer->folder, 0755) == 0);
    bouncer->port = world_free_port();
    server_of(w, server, sizeof server);
    write_file(bouncer, "users.txt",
               "\"belfry_dispatcher\" \"\"\n\"belfry_reconciler\" \"\"\n\"belfry_reader\" \"\"\n"
               "\"postgres\" \"\"\n");
    snprintf(text, sizeof text,
             "[databases]\n%s = %s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"
             "unix_socket_dir =\nauth_type = trust\nauth_file = %s/users.txt\nadmin_users = postgres\n"
             "pool_mode = transaction\ndefault_pool_size = %d\nserver_round_robin = 1\n",
             w->database, server, bouncer->port, bouncer->folder, SERVER_SESSIONS);
    write_file(bouncer, "pgbouncer.ini", text);
    snprintf(ini, sizeof ini, "%s/pgbouncer.ini", bouncer->folder);
    /* It refuses to be root. */
    const char *as_root[] = {"--reuid", "nobody", "--clear-groups", "--pdeathsig", "KILL", pgbouncer_path,
                             ini,       NULL};
    const char *as_user[] = {ini, NULL};
    bouncer->child = geteuid() == 0 ? child_start(w, "/usr/bin/setpriv", as_root, NULL)
                                    : child_start(w, pgbouncer_path, as_user, NULL);
    child_wait_log(bouncer->child, "process up", 20);
}

static void bouncer_stop(struct bouncer *bouncer)
{
    static const char *const files[] = {"pgbouncer.ini", "users.txt"};
    char path[128];
    child_kill(bouncer->child);
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", bouncer->folder, files[i]);
        unlink(path);
    }
    rmdir(bouncer->folder);
}

/* [database] for one role, by way of the pooler. */
static const char *by_pooler(const struct world *w, const struct bouncer *bouncer, const char *role)
{
    static char text[512];
    snprintf(text, sizeof text,
             "[database]\nuri = postgresql://%s@127.0.0.1:%d/%s\nprepared_statements = off\n"
             "[reconciler]\nreceipt_delay = 500ms\npoll_interval = 300ms\n",
             role, bouncer->port, w->database);
    if (strcmp(role, "belfry_reconciler") != 0)
        *strstr(text, "[reconciler]") = '\0';
    return text;
}

/* u00002's feed of w0, page by page; every notification once. */
static int64_t walk(struct client *c)
{
    char path[URL_MAX - 64] = "/v1/workspaces/w0/feeds/notifications?limit=2";
    int64_t items = 0;
    for (bool more = true; more;) {
        struct world_reply reply;
        client_get(c, path, &reply);
        cr_assert_eq(reply.status, 200, "%ld %s", reply.status, reply.body);
        json_t *page = json_loadb(reply.body, reply.body_bytes, 0, NULL);
        items += (int64_t)page_count(page);
        more = page_has_more(page);
        snprintf(path, sizeof path, "/v1/workspaces/w0/feeds/notifications?limit=2&cursor=%s",
                 more ? page_cursor(page) : "");
        json_decref(page);
        world_reply_done(&reply);
    }
    return items;
}

Test(dispatcher, pgbouncer, .timeout = 170)
{
    static struct client c;
    struct world *w = &c.w;
    struct bouncer bouncer;
    struct ledger ledger = {
        .records = RECORDS, .tombstones = 10, .users = 100, .partitions = 4, .tag = "pool"};
    world_open(w, "pgbouncer");
    world_database(w);
    world_topics(w, ledger.partitions);
    world_simulator(w, NULL);
    bouncer_start(w, &bouncer);
    struct child *dispatcher = world_dispatcher(w, by_pooler(w, &bouncer, "belfry_dispatcher"));
    struct child *other = world_dispatcher(w, by_pooler(w, &bouncer, "belfry_dispatcher"));
    struct child *reconciler = world_reconciler(w, by_pooler(w, &bouncer, "belfry_reconciler"));
    world_wait_count(w, ledger_register(w, &ledger), "SELECT count(*) FROM device_tokens");
    ledger_produce(w, &ledger, 0, RECORDS);
    world_wait_count(w, ledger.dispatches, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    world_wait_drained(w, w->group, w->events, 60);
    world_wait_drained(w, w->reconciler_group, w->receipts, 30);
    ledger_check(w, &ledger);

    world_exec(w, "SELECT belfry_set_member('w0', 'u00002', 'member')");
    c.reader = world_reader(w, by_pooler(w, &bouncer, "belfry_reader"), c.base);
    world_write_reader_ini(w, by_pooler(w, &bouncer, "belfry_reader"), c.ini);
    client_be(&c, "u00002");
    int64_t rows = world_count(w, "SELECT count(*) FROM notifications WHERE workspace_id = 'w0'"
                                  " AND recipient_user_id = 'u00002'");
    int64_t items = walk(&c);
    int64_t sessions =
        world_count(w, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                       " AND usename LIKE 'belfry_%%'");
    printf("pgbouncer: %d records, %lld delivered, %lld of %lld rows read in pages; %lld server sessions for "
           "four processes\n",
           RECORDS, (long long)ledger.dispatches, (long long)items, (long long)rows, (long long)sessions);
    cr_expect(items == rows && rows > 2);
    cr_expect(sessions <= 3 * SERVER_SESSIONS, "they do not come by the pooler");
    child_stop(dispatcher);
    child_stop(other);
    child_stop(reconciler);
    child_stop(c.reader);
    bouncer_stop(&bouncer);
    world_close(w);
}
