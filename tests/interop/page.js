"use strict";
// One link of a browser to an engine: its associations, windows, grants, probes. Tells the bridge by `tell(json)`.

const CONTROL = 0, BULK = 1, LINE = 2, LABELS = ["control", "bulk", "line"];
const WINDOW_BYTES = [1024 * 1024, 4 * 1024 * 1024], GRANT_STEP_BYTES = [256 * 1024, 512 * 1024];
const INITIAL_GRANT_BYTES = 256 * 1024, LANE_GRANT_STEP_BYTES = 48 * 1024, PROBE_MILLISECONDS = 100,
  BUSY_PROBE_MILLISECONDS = 25;
const HIGH_BUFFER_BYTES = 1024 * 1024;

const HOST = /(a=candidate:\S+ 1 udp \d+ )[\d.]+( \d+ typ host)/g;

const told = (event, more = {}) => tell(JSON.stringify({event, ...more}));
const hex = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
const bytesOf = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));

// One RTCPeerConnection with channels that both ends agreed on. Descriptions hold all candidates.
class Association {
  constructor(number, places, link) {
    this.number = number;
    this.connection = new RTCPeerConnection({iceServers: []});
    this.connection.ondatachannel = () => told("strange channel");
    this.channels = new Map(places.map((place) => [place, this.channel(place, link)]));
  }

  channel(place, link) {
    const lossy = place === LINE ? {ordered: false, maxRetransmits: 0} : {ordered: true};
    const channel = this.connection.createDataChannel(LABELS[place], {negotiated: true, id: place, ...lossy});
    channel.binaryType = "arraybuffer";
    channel.bufferedAmountLowThreshold = HIGH_BUFFER_BYTES / 2;
    channel.onbufferedamountlow = () => link.changed();
    channel.onopen = () => this.isOpen && link.opened(this);
    channel.onclose = () => link.closed(this);
    channel.onmessage = ({data}) => link.received(this, place, new Uint8Array(data));
    return channel;
  }

  get isOpen() { return [...this.channels.values()].every((channel) => channel.readyState === "open"); }

  async described(description) {
    const gathered = new Promise((resolve) => {
      this.connection.onicegatheringstatechange = () => this.connection.iceGatheringState === "complete" && resolve();
    });
    await this.connection.setLocalDescription(description);
    await gathered;
    // A page that may not record listens on all addresses and names the one of the default route. The engine's tests
    // keep to loopback.
    return this.connection.localDescription.sdp.replace(HOST, (_, before, after) => `${before}127.0.0.1${after}`);
  }

  async offer() { return this.described(await this.connection.createOffer()); }

  async answer(sdp) {
    await this.connection.setRemoteDescription({type: "offer", sdp});
    return this.described(await this.connection.createAnswer());
  }

  use(sdp) { return this.connection.setRemoteDescription({type: "answer", sdp}); }
}

class Link {
  // `probes`: whether this end knows of lanes. `laneLimit`: further lanes that it takes.
  constructor({probes, laneLimit, payloadBytes}) {
    Object.assign(this, {probes, laneLimit, payloadBytes});
    this.first = new Association(0, [CONTROL, BULK, LINE], this);
    this.lanes = new Map();
    this.waiting = [];
    this.assemblers = [new Assembler(), new Assembler()];
    this.numbers = [0, 0];         // of the next message, by lane
    this.underWay = [0, 0];        // frame bytes sent and not granted back in the control channel
    this.owed = [0, 0];            // frame bytes taken and not granted back in the control channel
    this.laneFrames = new Map([[0, 0]]);
    this.laneOwed = new Map([[0, 0]]);
    this.sentPayload = 0;
    this.granted = INITIAL_GRANT_BYTES;
    this.probesReceived = 0;
    this.probesSent = 0;
    this.sendingBulk = false;
    this.counts = {pings: 0, pongs: 0, probes: 0, reports: 0, grants: 0, laneGrants: 0, laneOffers: 0, framesByLane: {}};
    this.sending = Promise.resolve();
    this.digesting = Promise.resolve();
  }

  changed() { this.waiting.splice(0).forEach((resume) => resume()); }

  async until(true_) { while (!true_()) await new Promise((resume) => this.waiting.push(resume)); }

  opened(association) {
    if (association !== this.first) { this.changed(); return; }
    told("open");
    if (this.probes) this.probe();
  }

  closed(association) { if (association === this.first) told("closed"); else this.lanes.delete(association.number); }

  // Until the other end's probes came, and as long as there is bulk to send: what may be sent comes with the reports.
  probe() {
    clearTimeout(this.nextProbe);
    if ((this.counts.probes && !this.sendingBulk) || this.first.channels.get(LINE).readyState !== "open") return;
    this.sendOwn(LINE, short(PROBE, 0, this.probesSent++));
    this.nextProbe = setTimeout(() => this.probe(), this.sendingBulk ? BUSY_PROBE_MILLISECONDS : PROBE_MILLISECONDS);
  }

  sendOwn(place, frame, association = this.first) {
    const channel = association.channels.get(place);
    if (channel.readyState === "open") channel.send(frame);
  }

  received(association, place, frame) {
    const view = new DataView(frame.buffer), kind = frame[0];
    if (place === LINE) this.onLine(kind, view);
    else if (kind === DATA) this.onData(association, place, frame);
    else if (kind === GRANT) this.onGrant(place, frame[1], view.getUint32(4));
    else if (kind === PING) { this.counts.pings++; this.sendOwn(CONTROL, short(PONG, 0, view.getUint32(4))); }
    else if (kind === PONG) { this.counts.pongs++; told("pong", {number: view.getUint32(4)}); }
    else if (kind === OFFER) this.onLaneOffer(view.getUint16(2), new TextDecoder().decode(frame.subarray(4)));
    else if (kind === CLOSING) this.lanes.get(view.getUint16(2))?.connection.close();
    else told("strange frame", {kind});
  }

  onLine(kind, view) {
    if (kind === PROBE) {
      this.counts.probes++;
      this.probesReceived++;
      if (!this.probes) return;
      const granted = this.assemblers[BULK].payloadBytes + WINDOW_BYTES[BULK];
      this.sendOwn(LINE, report(view.getUint32(4), this.probesReceived, granted, this.laneFrames));
    } else if (kind === REPORT) {
      this.counts.reports++;
      this.granted = Math.max(this.granted, Number(view.getBigUint64(20)));
      this.changed();
    }
  }

  onGrant(place, lane, frameBytes) {
    if (place === BULK) { this.counts.laneGrants++; return; }
    this.counts.grants++;
    this.underWay[lane] -= frameBytes;
    this.changed();
  }

  onData(association, place, frame) {
    if (place === BULK) this.countLane(association, frame.length);
    const messages = this.assemblers[place].feed(frame);
    for (const message of messages) this.deliver(place, message);
    if (place === BULK && this.probes) return;
    this.owed[place] += frame.length;
    if (this.owed[place] >= GRANT_STEP_BYTES[place] || (place === BULK && messages.length)) {
      this.sendOwn(CONTROL, short(GRANT, place, this.owed[place]));
      this.owed[place] = 0;
    }
  }

  countLane(association, frameBytes) {
    const number = association.number, owed = (this.laneOwed.get(number) || 0) + frameBytes;
    this.laneFrames.set(number, (this.laneFrames.get(number) || 0) + 1);
    this.counts.framesByLane[number] = this.laneFrames.get(number);
    const due = this.probes && owed >= LANE_GRANT_STEP_BYTES;
    if (due) this.sendOwn(BULK, short(GRANT, BULK, owed), association);
    this.laneOwed.set(number, due ? 0 : owed);
  }

  deliver(lane, message) {
    this.digesting = this.digesting.then(async () => {
      const sha256 = hex(await crypto.subtle.digest("SHA-256", message));
      const head = btoa(String.fromCharCode(...message.subarray(0, 256)));
      told("message", {lane, bytes: message.length, sha256, head});
    });
  }

  async onLaneOffer(number, sdp) {
    this.counts.laneOffers++;
    if (this.lanes.size >= this.laneLimit) { this.sendOwn(CONTROL, signal(CLOSING, number, "")); return; }
    const lane = new Association(number, [BULK], this);
    this.lanes.set(number, lane);
    this.laneFrames.set(number, 0);
    this.sendOwn(CONTROL, signal(ANSWER, number, await lane.answer(sdp)));
  }

  // Resolves when the whole message is with the data channels. Messages of both lanes go one after the other.
  send(lane, base64) {
    this.sending = this.sending.then(() => this.sendNow(lane, bytesOf(base64)));
    return this.sending;
  }

  async sendNow(lane, message) {
    const number = this.numbers[lane]++;
    let turn = 0;
    this.sendingBulk = lane === BULK;
    if (this.probes && this.sendingBulk) this.probe();
    for (const frame of framesOf(number, message, this.payloadBytes)) {
      const open = [...this.lanes.values()].filter((one) => one.isOpen);
      const association = lane === BULK && open.length ? open[turn++ % open.length] : this.first;
      const channel = association.channels.get(lane);
      await this.until(() => channel.bufferedAmount < HIGH_BUFFER_BYTES && this.mayGo(lane, frame.length));
      this.underWay[lane] += frame.length;
      if (lane === BULK) this.sentPayload += frame.length - HEADER_BYTES - (frame[1] ? DIGEST_BYTES : 0);
      channel.send(frame);
    }
    this.sendingBulk = false;
  }

  mayGo(lane, frameBytes) {
    if (lane === BULK && this.probes) return this.sentPayload + frameBytes - HEADER_BYTES <= this.granted;
    return this.underWay[lane] + frameBytes <= WINDOW_BYTES[lane];
  }

  close() { for (const lane of this.lanes.values()) lane.connection.close(); this.first.connection.close(); }
}

// Whether this page is told of an address at all.
async function gathers() {
  const connection = new RTCPeerConnection({iceServers: []});
  connection.createDataChannel("any");
  const gathered = new Promise((resolve) => { connection.onicecandidate = ({candidate}) => candidate || resolve(); });
  await connection.setLocalDescription();
  await gathered;
  const found = connection.localDescription.sdp.includes("a=candidate:");
  connection.close();
  return found;
}

let link = null;
const begin = (options) => { link = new Link(options); };
told("loaded");
