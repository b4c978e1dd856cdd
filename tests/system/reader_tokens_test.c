/* Who may read, with the real reader: tokens of all four algorithms at once, forged ones, a key rolled over
 * by SIGHUP, files that are no key. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "reader_client.h"
#include "unit/wire/jwt_public_vectors.h"

#define FEED "/v1/workspaces/w/feeds/notifications"

enum { LIST_MAX = WORLD_PATH_MAX * 8 };

/* The list of keys with @ for the world's folder, as an ini's text. */
static void list_of(const struct client *c, const char *keys, char *text)
{
    size_t used = (size_t)snprintf(text, LIST_MAX, "[auth]\nissuer = issuer\naudience = belfry\nkeys = ");
    for (; *keys != '\0'; keys++)
        used += (size_t)snprintf(text + used, LIST_MAX - used, "%.*s", *keys == '@' ? WORLD_PATH_MAX : 1,
                                 *keys == '@' ? c->w.folder : keys);
    cr_assert_lt(used, (size_t)LIST_MAX);
}

static void put_file(const struct client *c, const char *name, const char *text)
{
    char path[WORLD_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", c->w.folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    cr_assert_geq(fputs(text, file), 0);
    fclose(file);
}

/* 200, or 401 token_invalid. */
static void expect_token(struct client *c, const char *name, const char *token, bool good)
{
    snprintf(c->authorization, sizeof c->authorization, "Authorization: Bearer %s", token);
    if (!good) {
        client_refused(c, FEED, 401, "token_invalid");
        printf("tokens: %-22s 401 token_invalid\n", name);
        return;
    }
    json_t *page = client_page(c, "");
    cr_assert_eq(page_count(page), 3, "%s", name);
    json_decref(page);
    printf("tokens: %-22s 200\n", name);
}

static void reload(struct client *c, const char *keys, const char *log, int times)
{
    char extra[LIST_MAX];
    list_of(c, keys, extra);
    client_reload(c, extra);
    for (int tries = 0; tries < 250 && child_log_lines(c->reader, log) < times; tries++)
        world_sleep_ms(20);
    cr_assert_eq(child_log_lines(c->reader, log), times, "%s", log);
}

/* The new key beside the old one, then the old one dropped; lists that cannot be taken change nothing. */
static void roll_over(struct client *c)
{
    reload(c, "dev:HS256:@/keys.hex r:RS256:@/r.pem r2:RS256:@/r2.pem e:ES256:@/e.pem", "READ-KEYS", 1);
    expect_token(c, "both: old", token_rsa, true);
    expect_token(c, "both: new", token_rsa_second, true);
    expect_token(c, "dropped: EdDSA", token_ed25519, false);
    reload(c, "dev:HS256:@/keys.hex r2:RS256:@/r2.pem d:EdDSA:@/e.pem", "no Ed25519 key", 1);
    reload(c, "dev:HS256:@/keys.hex r2:ES256:@/r2.pem", "P-256", 1);
    reload(c, "dev:HS256:@/r.pem", "hex digits", 1);
    expect_token(c, "bad lists: old", token_rsa, true);
    reload(c, "dev:HS256:@/keys.hex r2:RS256:@/r2.pem e:ES256:@/e.pem", "READ-KEYS", 2);
    expect_token(c, "dropped: old", token_rsa, false);
    expect_token(c, "dropped: new", token_rsa_second, true);
    expect_token(c, "kept: ES256", token_p256, true);
    put_file(c, "r2.pem", pem_r);
    reload(c, "dev:HS256:@/keys.hex r2:RS256:@/r2.pem", "READ-KEYS", 3);
    expect_token(c, "another key under r2", token_rsa_second, false);
}

static const char first[] = "dev:HS256:@/keys.hex r:RS256:@/r.pem e:ES256:@/e.pem d:EdDSA:@/d.pem";

Test(reader, tokens)
{
    static struct client c;
    char extra[LIST_MAX], base[64], hs256[TOKEN_MAX];
    client_open(&c, "reader_tokens");
    put_rows(&c, "u1", 3, "2026-03-21T09:00:00Z");
    put_file(&c, "r.pem", pem_r);
    put_file(&c, "r2.pem", pem_r2);
    put_file(&c, "e.pem", pem_e);
    put_file(&c, "d.pem", pem_d);
    child_stop(c.reader);
    list_of(&c, first, extra);
    c.reader = world_reader(&c.w, extra, base);
    client_move(&c, base);
    snprintf(c.ini, sizeof c.ini, "%s", c.reader->ini);
    client_be(&c, "u1");
    snprintf(hs256, sizeof hs256, "%s", c.authorization + strlen("Authorization: Bearer "));
    expect_token(&c, "HS256", hs256, true);
    expect_token(&c, "RS256", token_rsa, true);
    expect_token(&c, "ES256", token_p256, true);
    expect_token(&c, "EdDSA", token_ed25519, true);
    expect_token(&c, "HMAC with RSA's PEM", token_rsa_hmac, false);
    expect_token(&c, "kid r, another key", token_rsa_second_as_first, false);
    expect_token(&c, "an unknown kid", token_rsa_second, false);
    roll_over(&c);
    expect_token(&c, "HS256", hs256, true);
    client_close(&c);
}
