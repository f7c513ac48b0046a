// The laboratory's machines, compiled to WebAssembly. A message is a request, as text; so is the reply.
importScripts("wasm_exec.js");

const go = new Go();
const started = (async () => {
  const reply = await fetch("lab.wasm");
  if (!reply.ok) throw new Error("lab.wasm: " + reply.status);
  const wasm = await WebAssembly.instantiate(await reply.arrayBuffer(), go.importObject);
  go.run(wasm.instance);
})();

onmessage = async (event) => {
  try {
    await started;
    postMessage(self.conclaveLab(event.data));
  } catch (err) {
    postMessage(JSON.stringify({ error: String(err) }));
  }
};
