// The way to the worker: one request after the other, each with its reply.

export class Engine {
  #worker = new Worker("worker.js");
  #waiting = [];

  constructor() {
    this.#worker.onmessage = (event) => this.#waiting.shift()(JSON.parse(event.data));
    this.#worker.onerror = (event) => {
      for (const resolve of this.#waiting.splice(0)) resolve({ error: event.message || "the worker failed" });
    };
  }

  // ask resolves with the reply; what went wrong is in its error.
  ask(command, rest = {}) {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#worker.postMessage(JSON.stringify({ command, ...rest }));
    });
  }

  get busy() { return this.#waiting.length > 0; }
}
