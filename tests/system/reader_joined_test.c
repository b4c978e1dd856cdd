/* Small pages share a transaction (io/db.h, db_send_joined): one that the database refuses takes nobody
 * along. The reader is stopped while requests arrive, so that it finds them all at one look. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reader_client.h"

#define FEED                                                                                                 \
    "[feed.posts]\nrelation = posts\ncolumns = id created_at\nid_type = bigint\npath = /posts\nauth = "      \
    "none\n"

enum { ROWS = 40, ROUNDS = 5, BROKEN_ROW = 17, REPLY_MAX = 2048 };

static void make_feed(struct client *c)
{
    world_exec(&c->w, "CREATE TABLE posts (id bigint PRIMARY KEY, created_at timestamptz NOT NULL)");
    world_exec(&c->w, "CREATE INDEX posts_feed ON posts (created_at DESC, id DESC)");
    world_exec(&c->w,
               "INSERT INTO posts SELECT i, timestamptz '2026-03-21' + i * interval '1 s' FROM"
               " generate_series(1, %d) AS i",
               ROWS);
    /* A row that cannot be read: a page that meets it fails, by 22012. */
    world_exec(&c->w, "ALTER TABLE posts ENABLE ROW LEVEL SECURITY");
    world_exec(&c->w, "CREATE POLICY broken ON posts USING (1 / (id - %d) IS NOT NULL)", BROKEN_ROW);
    world_exec(&c->w, "GRANT SELECT ON posts TO belfry_reader");
}

/* The cursor behind each row, made by walks on either side of the broken one. */
static int walk(struct client *c, char cursors[ROWS][CURSOR_MAX])
{
    int count = 0;
    char path[URL_MAX], cursor[CURSOR_MAX] = "";
    for (;;) {
        struct world_reply reply;
        snprintf(path, sizeof path, "/posts?limit=1&cursor=%s", cursor);
        client_get(c, path, &reply);
        if (reply.status != 200) {
            cr_assert_eq(reply.status, 500, "%s", reply.body);
            world_reply_done(&reply);
            return count;
        }
        json_t *page = json_loadb(reply.body, reply.body_bytes, 0, NULL);
        snprintf(cursor, sizeof cursor, "%s", page_cursor(page));
        snprintf(cursors[count++], CURSOR_MAX, "%s", cursor);
        json_decref(page);
        world_reply_done(&reply);
    }
}

/* One status of one reply; "HTTP/1.1 200". */
static int read_status(int fd)
{
    char reply[REPLY_MAX];
    ssize_t bytes = read(fd, reply, sizeof reply - 1);
    cr_assert_gt(bytes, 12, "errno %d", errno);
    reply[bytes] = '\0';
    int status = 0;
    cr_assert_eq(sscanf(reply, "HTTP/1.1 %d", &status), 1, "%s", reply);
    return status;
}

/* Each connection asks for the page of the cursor `by` places on: the one that fails is somewhere in the
 * middle. */
static void ask_at_once(const struct child *reader, const int *fds, char cursors[ROWS][CURSOR_MAX], int count,
                        int by)
{
    char request[URL_MAX];
    cr_assert_eq(kill(reader->pid, SIGSTOP), 0);
    for (int i = 0; i < count; i++) {
        int bytes =
            snprintf(request, sizeof request, "GET /posts?limit=1&cursor=%s HTTP/1.1\r\nHost: x\r\n\r\n",
                     cursors[(i + by) % count]);
        cr_assert_eq(write(fds[i], request, (size_t)bytes), bytes);
    }
    cr_assert_eq(kill(reader->pid, SIGCONT), 0);
}

Test(reader, joined)
{
    static struct client c;
    static char cursors[ROWS][CURSOR_MAX];
    int fds[ROWS], good = 0, refused = 0;
    client_open(&c, "joined");
    make_feed(&c);
    static char base[64];
    struct child *reader = world_reader(&c.w, FEED, base);
    client_move(&c, base);
    int count = walk(&c, cursors);
    cr_assert_gt(count, 10);
    for (int i = 0; i < count; i++)
        fds[i] = client_dial(&c, 0);
    for (int round = 0; round < ROUNDS; round++) {
        int by = 1 + 4 * round;
        ask_at_once(reader, fds, cursors, count, by);
        for (int i = 0; i < count; i++) {
            int status = read_status(fds[i]), expected = (i + by) % count == count - 1 ? 500 : 200;
            cr_expect_eq(status, expected, "page %d: %d", i, status);
            good += status == 200;
            refused += status == 500;
        }
    }
    printf("joined: %d pages at once, %d times: %d good, %d refused\n", count, ROUNDS, good, refused);
    cr_expect_eq(refused, ROUNDS);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    child_stop(reader);
    client_close(&c);
}
