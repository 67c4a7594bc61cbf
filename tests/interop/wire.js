"use strict";
// The wire's frames (docs/specs/wire.md) written from the specification, with nothing shared with the engine.

const DATA = 1, GRANT = 2, PING = 3, PONG = 4, PROBE = 5, REPORT = 6, OFFER = 7, ANSWER = 8, CLOSING = 9, WITHDRAWAL = 10;
const HEADER_BYTES = 16, DIGEST_BYTES = 16;

// BLAKE2b (RFC 7693), unkeyed, on pairs of 32-bit words: low word first.
const BLAKE_IV = new Uint32Array([
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19]);
const BLAKE_SIGMA = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4], [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13], [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11], [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5], [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0]];
const BLAKE_STEPS = [
  [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13],
  [3, 4, 9, 14]];
const v = new Uint32Array(32), m = new Uint32Array(32);

function add(to, low, high) {
  const sum = v[to] + low;
  v[to + 1] += high + (sum > 0xffffffff ? 1 : 0);
  v[to] = sum;
}

function mixed(a, b, c, d, x, y) {
  add(a, v[b], v[b + 1]); add(a, m[x], m[x + 1]);
  let low = v[d] ^ v[a], high = v[d + 1] ^ v[a + 1];
  v[d] = high; v[d + 1] = low;
  add(c, v[d], v[d + 1]);
  low = v[b] ^ v[c]; high = v[b + 1] ^ v[c + 1];
  v[b] = (low >>> 24) | (high << 8); v[b + 1] = (high >>> 24) | (low << 8);
  add(a, v[b], v[b + 1]); add(a, m[y], m[y + 1]);
  low = v[d] ^ v[a]; high = v[d + 1] ^ v[a + 1];
  v[d] = (low >>> 16) | (high << 16); v[d + 1] = (high >>> 16) | (low << 16);
  add(c, v[d], v[d + 1]);
  low = v[b] ^ v[c]; high = v[b + 1] ^ v[c + 1];
  v[b] = (high >>> 31) | (low << 1); v[b + 1] = (low >>> 31) | (high << 1);
}

function digestOf(message) {
  const h = BLAKE_IV.slice(), block = new Uint8Array(128), words = new DataView(block.buffer);
  h[0] ^= 0x01010000 ^ DIGEST_BYTES;
  const blocks = Math.max(1, Math.ceil(message.length / 128));
  for (let number = 0; number < blocks; number++) {
    const until = Math.min(message.length, (number + 1) * 128);
    block.fill(0);
    block.set(message.subarray(number * 128, until));
    for (let place = 0; place < 32; place++) m[place] = words.getUint32(4 * place, true);
    v.set(h); v.set(BLAKE_IV, 16);
    v[24] ^= until;
    if (number === blocks - 1) { v[28] = ~v[28]; v[29] = ~v[29]; }
    for (let round = 0; round < 12; round++) {
      const sigma = BLAKE_SIGMA[round % 10];
      BLAKE_STEPS.forEach(([a, b, c, d], place) =>
        mixed(2 * a, 2 * b, 2 * c, 2 * d, 2 * sigma[2 * place], 2 * sigma[2 * place + 1]));
    }
    for (let place = 0; place < 16; place++) h[place] ^= v[place] ^ v[place + 16];
  }
  const out = new DataView(new ArrayBuffer(64));
  h.forEach((word, place) => out.setUint32(4 * place, word, true));
  return new Uint8Array(out.buffer, 0, DIGEST_BYTES);
}

// Fields are [bits, value]; numbers are big-endian.
function packed(fields, tail = new Uint8Array(0)) {
  const bytes = fields.reduce((sum, [bits]) => sum + bits / 8, 0);
  const frame = new Uint8Array(bytes + tail.length), view = new DataView(frame.buffer);
  let at = 0;
  for (const [bits, value] of fields) {
    if (bits === 8) view.setUint8(at, value);
    else if (bits === 16) view.setUint16(at, value);
    else if (bits === 32) view.setUint32(at, value);
    else view.setBigUint64(at, BigInt(value));
    at += bits / 8;
  }
  frame.set(tail, at);
  return frame;
}

const short = (kind, second, number) => packed([[8, kind], [8, second], [16, 0], [32, number]]);
const signal = (kind, lane, sdp) => packed([[8, kind], [8, 0], [16, lane]], new TextEncoder().encode(sdp));

function report(number, probes, granted, frames) {
  const head = [[8, REPORT], [8, frames.size], [16, 0], [32, number], [64, Math.floor(performance.now() * 1000)],
    [32, probes], [64, granted]];
  for (const [lane, count] of frames) head.push([16, lane], [16, 0], [32, count]);
  return packed(head);
}

function* framesOf(number, message, payloadBytes) {
  const count = Math.max(1, Math.ceil(message.length / payloadBytes));
  for (let index = 0; index < count; index++) {
    const payload = message.subarray(index * payloadBytes, (index + 1) * payloadBytes), last = index === count - 1;
    const tail = new Uint8Array(payload.length + (last ? DIGEST_BYTES : 0));
    tail.set(payload);
    if (last) tail.set(digestOf(message), payload.length);
    yield packed([[8, DATA], [8, last ? 1 : 0], [16, 0], [32, number], [32, index], [32, message.length]], tail);
  }
}

// Puts messages together from frames in any order, and hands them out in the order of their numbers.
class Assembler {
  constructor() { this.next = 0; this.begun = new Map(); this.payloadBytes = 0; }

  feed(frame) {
    const view = new DataView(frame.buffer, frame.byteOffset, frame.length);
    const last = view.getUint8(1) === 1, number = view.getUint32(4), index = view.getUint32(8);
    const size = view.getUint32(12), payload = frame.slice(HEADER_BYTES, last ? -DIGEST_BYTES : undefined);
    if (number < this.next) return [];
    if (!this.begun.has(number)) this.begun.set(number, {pieces: new Map(), last: null, digest: null, size});
    const one = this.begun.get(number);
    if (one.size !== size) throw new Error("a frame contradicts an earlier one");
    if (one.pieces.has(index)) return [];
    one.pieces.set(index, payload);
    this.payloadBytes += payload.length;
    if (last) { one.last = index; one.digest = frame.slice(-DIGEST_BYTES); }
    const out = [];
    for (let due; (due = this.begun.get(this.next)) && due.last !== null && due.pieces.size === due.last + 1;) {
      this.begun.delete(this.next++);
      out.push(whole(due));
    }
    return out;
  }
}

function whole(one) {
  const message = new Uint8Array(one.size);
  let at = 0;
  for (let index = 0; index <= one.last; index++) { message.set(one.pieces.get(index), at); at += one.pieces.get(index).length; }
  const digest = digestOf(message);
  if (at !== one.size || one.digest.some((byte, place) => byte !== digest[place])) throw new Error("a digest is wrong");
  return message;
}
