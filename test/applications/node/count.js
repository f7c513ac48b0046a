// Counts in a znode, and prints each number that was acknowledged.
const zookeeper = require('node-zookeeper-client');

const client = zookeeper.createClient(process.argv[2], {sessionTimeout: 6000, spinDelay: 100});
const call = (name, ...args) => new Promise((done, failed) =>
  client[name](...args, (error, ...results) => (error ? failed(error) : done(results))));

async function retried(what, f) {
  for (;;) {
    try {
      return await f();
    } catch (error) {
      console.log(`refused ${what}: ${error.name || error.message}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  }
}

async function main() {
  await call('create', '/node', Buffer.from('-1'));
  await call('create', '/node/ephemeral', null, zookeeper.ACL.OPEN_ACL_UNSAFE, zookeeper.CreateMode.EPHEMERAL);
  client.addAuthInfo('digest', Buffer.from('u:p'));
  await call('create', '/node/mine', null, zookeeper.ACL.CREATOR_ALL_ACL, zookeeper.CreateMode.PERSISTENT);
  const watch = () => client.getData('/node', watch, (error, data) => !error && console.log(`watched ${data}`));
  watch();
  for (let i = 0; ; i++) {
    await retried(i, () => call('setData', '/node', Buffer.from(String(i)), -1));
    console.log(`acknowledged ${i}`);
    const [data] = await retried(i, () => call('getData', '/node'));
    const [stat] = await retried(i, () => call('exists', '/node/ephemeral'));
    if (String(data) !== String(i) || !stat) {
      console.log(`lost ${i}`);
    }
    await new Promise((done) => setTimeout(done, 10));
  }
}

client.on('state', (state) => console.log(`state ${state.name}`));
client.once('connected', () => main().catch((error) => {
  console.log('failed', error);
  process.exit(1);
}));
client.connect();
