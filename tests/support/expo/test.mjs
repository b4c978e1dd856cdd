// The provider's own client against belfry-simulator: the simulator is right only if the client accepts it.
//   node test.mjs PATH/belfry-simulator
// Each check prints what it saw; any difference ends with exit 1. Its closing line counts for ctest's log.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const program = process.argv[2];
const folder = mkdtempSync(join(tmpdir(), 'belfry-expo-'));
const record = join(folder, 'accepted.ndjson');

function start(...args) {
  const child = spawn(program, ['--listen', '127.0.0.1:0', ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`belfry-simulator left with ${code}`)));
    createInterface({ input: child.stdout }).once('line', (line) =>
      resolve({ child, url: `http://${line.replace('listening on ', '')}` }));
  });
}

async function stop({ child }) {
  child.removeAllListeners('exit');
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  assert.equal(await ended, 0, 'the simulator leaves with 0 on SIGTERM');
}

async function control(url, path, body) {
  const reply = await fetch(`${url}/control/${path}`, body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) });
  const value = await reply.json();
  assert.equal(reply.status, 200, JSON.stringify(value));
  return value;
}

const accepted = () => readFileSync(record, 'utf8').trim().split('\n').filter(Boolean).map((line) => JSON.parse(line));
const message = (n, more = {}) => ({
  to: `ExponentPushToken[client-${n}]`, title: `Title ${n}`, body: 'Grüße 🔔',
  data: { notification_id: `n-${n}` }, ...more,
});

const sim = await start('--record', record, '--receipt-delay', '100');
// The client reads the variable when it is imported.
process.env.EXPO_BASE_URL = sim.url;
const { Expo } = await import('expo-server-sdk');
const expo = new Expo({ retryMinTimeout: 100 });
let passed = 0;
async function check(name, run) {
  await control(sim.url, 'reset', {});
  console.log(`${name}: ${await run()}`);
  passed += 1;
}

let tickets = [];
await check('send and chunk', async () => {
  const messages = Array.from({ length: 250 }, (_, n) => message(n));
  const chunks = expo.chunkPushNotifications(messages);
  assert.deepEqual(chunks.map((chunk) => chunk.length), [100, 100, 50]);
  for (const chunk of chunks) tickets.push(...(await expo.sendPushNotificationsAsync(chunk)));
  assert.equal(tickets.length, 250);
  assert.ok(tickets.every((ticket) => ticket.status === 'ok' && ticket.id));
  assert.equal(new Set(tickets.map((ticket) => ticket.id)).size, 250);
  // The record is the truth: every message once, tickets by position.
  assert.deepEqual(accepted().map((line) => line.ticket), tickets.map((ticket) => ticket.id));
  assert.deepEqual(accepted().map((line) => line.notification_id), messages.map((m) => m.data.notification_id));
  assert.equal(accepted()[0].title_bytes, 7);
  const { send } = await control(sim.url, 'stats');
  assert.equal(send.calls, 3);
  assert.equal(send.accepted, 250);
  assert.equal(send.largest, 100);
  assert.equal(send.gzip, 3, 'bodies over 1,024 bytes come packed');
  return `250 messages in ${send.calls} calls, ${send.gzip} of them packed`;
});

await check('receipts appear later, by id', async () => {
  const ids = tickets.map((ticket) => ticket.id);
  const late = (await expo.sendPushNotificationsAsync([message('late')]))[0].id;
  assert.deepEqual(await expo.getPushNotificationReceiptsAsync([late]), {}, 'not yet there');
  await control(sim.url, 'clock', { advance_ms: 100 });
  assert.equal((await expo.getPushNotificationReceiptsAsync([late]))[late].status, 'ok');
  let seen = 0;
  for (const chunk of expo.chunkPushNotificationReceiptIds([...ids, 'no-such-id'])) {
    const receipts = await expo.getPushNotificationReceiptsAsync(chunk);
    assert.equal(receipts['no-such-id'], undefined);
    for (const [id, receipt] of Object.entries(receipts)) {
      assert.ok(ids.includes(id));
      assert.equal(receipt.status, 'ok');
      seen += 1;
    }
  }
  assert.equal(seen, 250);
  await control(sim.url, 'clock', { advance_ms: 86_400_000 });
  assert.deepEqual(await expo.getPushNotificationReceiptsAsync(ids.slice(0, 5)), {}, 'gone after a day');
  return `${seen} of ${ids.length}`;
});

await check('DeviceNotRegistered in a ticket and in a receipt', async () => {
  await control(sim.url, 'script', [
    { when: { token: 'gone-now' }, do: { ticket_error: 'DeviceNotRegistered' } },
    { when: { token: 'gone-later' }, do: { receipt_error: 'DeviceNotRegistered' } },
  ]);
  const got = await expo.sendPushNotificationsAsync([message('a'), message('gone-now'), message('gone-later')]);
  assert.deepEqual(got.map((ticket) => ticket.status), ['ok', 'error', 'ok']);
  assert.equal(got[1].details.error, 'DeviceNotRegistered');
  assert.equal(got[1].details.expoPushToken, 'ExponentPushToken[client-gone-now]');
  await control(sim.url, 'clock', { advance_ms: 100 });
  const receipts = await expo.getPushNotificationReceiptsAsync([got[0].id, got[2].id]);
  assert.equal(receipts[got[0].id].status, 'ok');
  assert.equal(receipts[got[2].id].details.error, 'DeviceNotRegistered');
  return got[1].message;
});

await check('MessageTooBig', async () => {
  const got = await expo.sendPushNotificationsAsync([
    message('small', { body: 'x'.repeat(3900) }), message('big', { body: 'x'.repeat(4100) })]);
  assert.deepEqual(got.map((ticket) => ticket.details?.error), [undefined, 'MessageTooBig']);
  return got[1].details.error;
});

async function refused(run, code, status = 400) {
  const before = accepted().length;
  const error = await run().then(() => assert.fail(`${code} was expected`), (caught) => caught);
  assert.equal(error.code, code);
  assert.equal(error.statusCode, status);
  assert.equal(accepted().length, before, 'nothing is accepted of a refused request');
  return error;
}

await check('the provider\'s own refusals', async () => {
  await control(sim.url, 'projects', { 'other-': '@else/where' });
  const tooMany = await refused(() => expo.sendPushNotificationsAsync([message(1), message('other-1')]),
    'PUSH_TOO_MANY_EXPERIENCE_IDS');
  assert.deepEqual(tooMany.details, {
    '@belfry/app': ['ExponentPushToken[client-1]'], '@else/where': ['ExponentPushToken[client-other-1]'] });
  await refused(() => expo.sendPushNotificationsAsync(Array.from({ length: 101 }, (_, n) => message(n))),
    'PUSH_TOO_MANY_NOTIFICATIONS');
  await refused(() => expo.getPushNotificationReceiptsAsync(Array.from({ length: 1001 }, (_, n) => `r${n}`)),
    'PUSH_TOO_MANY_RECEIPTS');
  await refused(() => expo.sendPushNotificationsAsync([message(1), message(2, { badge: 'seven' })]),
    'VALIDATION_ERROR');
  await refused(() => expo.sendPushNotificationsAsync([message(1, { to: 'not a token' })]), 'VALIDATION_ERROR');
  return tooMany.message;
});

await check('429: the client tries again', async () => {
  await control(sim.url, 'script', { when: { next: 2 }, do: { status: 429,
    body: { errors: [{ code: 'TOO_MANY_REQUESTS', message: 'slow down' }] } } });
  const got = await expo.sendPushNotificationsAsync([message('patient')]);
  assert.equal(got[0].status, 'ok');
  const { send } = await control(sim.url, 'stats');
  assert.equal(send.calls, 3);
  assert.equal(send.accepted, 1);
  return `${send.calls} calls, accepted once`;
});

await check('an answer that is lost was accepted all the same', async () => {
  const before = accepted().length;
  await control(sim.url, 'script', [{ when: { call: 1 }, do: { close: 'before_reply' } },
    { when: { call: 2 }, do: { close: 'before_reply', accept: false } },
    { when: { call: 3 }, do: { close: 'mid_body' } }]);
  for (let n = 0; n < 3; n += 1) {
    await assert.rejects(expo.sendPushNotificationsAsync([message(`lost-${n}`)]));
  }
  const lost = accepted().slice(before).map((line) => line.notification_id);
  assert.deepEqual(lost, ['n-lost-0', 'n-lost-2']);
  return lost.join(' ');
});

await check('tickets that correlate with nothing', async () => {
  await control(sim.url, 'script', { when: { token: 'dropped' }, do: { drop_ticket: true } });
  await assert.rejects(expo.sendPushNotificationsAsync([message(1), message('dropped')]), /got 1/);
  return 'refused by the client';
});

await stop(sim);
const strict = await start('--access-token', 'secret', '--rate', '100');
// The client reads its address once, so this part speaks HTTP itself.
async function post(token, count) {
  const headers = { 'content-type': 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) };
  const body = JSON.stringify(Array.from({ length: count }, (_, n) => message(n)));
  const reply = await fetch(`${strict.url}/--/api/v2/push/send`, { method: 'POST', headers, body });
  return { status: reply.status, retry: reply.headers.get('retry-after'), value: await reply.json() };
}
const statuses = [await post(null, 1), await post('wrong', 1), await post('secret', 100), await post('secret', 100)];
assert.deepEqual(statuses.map((one) => one.status), [401, 401, 200, 429]);
assert.equal(statuses[0].value.errors[0].code, 'UNAUTHORIZED');
assert.equal(statuses[1].value.error, 'invalid_token');
assert.equal(statuses[3].value.errors[0].code, 'TOO_MANY_REQUESTS');
assert.ok(Number(statuses[3].retry) >= 1);
console.log(`credentials and rate: ${statuses.map((one) => one.status).join(' ')}, Retry-After ${statuses[3].retry}`);
await stop(strict);
rmSync(folder, { recursive: true });
console.log(`${passed + 1} checks passed, 0 failed`);
