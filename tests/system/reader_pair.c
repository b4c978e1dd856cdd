/* A primary with a hot standby, a reader on each. */
#include "reader_pair.h"

#include <stdio.h>

void pair_open(struct pair *p, const char *name)
{
    char text[1024];
    struct client *c = &p->primary;
    world_open(&c->w, name);
    world_own_server(&c->w, "postgres", "start", NULL);
    client_start(c);
    int port = world_standby(&c->w);
    snprintf(p->far.uri, sizeof p->far.uri, "postgresql://postgres@127.0.0.1:%d/%s", port, c->w.database);
    snprintf(p->log.log, sizeof p->log.log, "%.400s/standby/data/server.log", c->w.folder);
    world_reconnect(&p->far);
    snprintf(text, sizeof text, "[database]\nread_uri = postgresql://belfry_reader@127.0.0.1:%d/%s\n", port,
             c->w.database);
    p->standby = *c;
    p->standby.reader = world_reader(&c->w, text, p->standby.base);
}

void pair_close(struct pair *p)
{
    child_stop(p->standby.reader);
    client_close(&p->primary);
}

void pair_wait_replayed(struct pair *p)
{
    char lsn[64];
    world_text(&p->primary.w, lsn, sizeof lsn, "SELECT pg_current_wal_flush_lsn()");
    world_wait_count(&p->far, 1, "SELECT (pg_last_wal_replay_lsn() >= '%s')::int", lsn);
}
