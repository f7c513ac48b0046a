// The texts of the page, in English and in Simplified Chinese.

const texts = {
  en: {
    laboratory: "laboratory", scenario: "Scenario", free: "A run of your own", algorithm: "Algorithm", servers: "Servers", seed: "Seed", theme: "Theme",
    stage: "servers and messages", time: "time", restart: "to the beginning", back: "one step back", play: "play", pause: "pause", step: "one step forward",
    moment: "Moment", speed: "Speed", stops: "Stop at each explanation", rules: "What must hold", choose: "Choose a server or a message",
    actions: "actions", everywhere: "Everywhere", healall: "Heal all links", copy: "Copy the URL of this run", copied: "Copied",
    knife: "Draw a line through the scene to partition the servers.", log: "What happened", holds: "holds", broken: "broken",
    wish: "not promised by this algorithm", show: "show the moment",
    kill: "Kill", start: "Start", "pause-server": "Pause", resume: "Resume", wipe: "Lose its disk", campaign: "Campaign", withdraw: "Withdraw",
    resign: "Resign", transfer: "Transfer to", write: "Write", full: "Disk full", takeout: "Remove from the ensemble", takein: "Add to the ensemble", space: "Free disk space", cut: "Cut the link to", heal: "Heal the link to",
    clock: "Clock", fast: "5 % fast", slow: "5 % slow", right: "correct", drop: "Drop", delay: "Delay by 1 s", repeat: "Repeat",
    dropnext: "Drop the next message to",
    state: "state", role: "role", lease: "lease left", votesfor: "for", vote: "vote", votes: "votes", message: "Message", from: "from", to: "to", value: "value", up: "up", down: "down", paused: "paused",
    leads: "leads", is: "is", loading: "Loading the machines.", failed: "The laboratory cannot start: ", unknown: "There is no scenario ",
  },
  zh: {
    laboratory: "实验室", scenario: "场景", free: "自己的运行", algorithm: "算法", servers: "服务器数", seed: "种子", theme: "主题",
    stage: "服务器与消息", time: "时间", restart: "回到开头", back: "后退一步", play: "播放", pause: "暂停", step: "前进一步",
    moment: "时刻", speed: "速度", stops: "在每段说明处停下", rules: "必须成立的规则", choose: "请选择服务器或消息",
    actions: "操作", everywhere: "全局", healall: "恢复所有链路", copy: "复制本次运行的网址", copied: "已复制",
    knife: "在图上画一条线，把服务器分隔成两个分区。", log: "发生了什么", holds: "成立", broken: "已破坏",
    wish: "该算法不作此承诺", show: "查看该时刻",
    kill: "杀死", start: "启动", "pause-server": "暂停", resume: "继续", wipe: "丢失磁盘", campaign: "参选", withdraw: "退出竞选",
    resign: "退位", transfer: "移交给", write: "写入", full: "磁盘写满", takeout: "移出集群", takein: "加入集群", space: "腾出空间", cut: "切断到此的方向", heal: "恢复到此的方向",
    clock: "时钟", fast: "快 5 %", slow: "慢 5 %", right: "正常", drop: "丢弃", delay: "延迟 1 秒", repeat: "重复",
    dropnext: "丢弃下一条消息，发往",
    state: "状态", role: "角色", lease: "剩余租约", votesfor: "投给", vote: "票", votes: "票", message: "消息", from: "来自", to: "发往", value: "值", up: "运行", down: "停止", paused: "暂停",
    leads: "是领导者", is: "", loading: "正在加载状态机。", failed: "实验室无法启动：", unknown: "没有这个场景：",
  },
};

// Rules and algorithms come from the machines in English; here is what they are in Chinese.
const said = {
  "no two servers lead in one term": "同一任期内没有两台服务器领导",
  "no two servers consider themselves leader at one moment": "同一时刻没有两台服务器自认为领导者",
  "each leader has a higher term than the one before: it is a fencing token": "每个领导者的任期都比前一个大：任期就是栅栏令牌",
  "a quorum follows one leader at most in an epoch": "一个纪元内多数至多跟随一个领导者",
  "all servers show the same transactions in the same order": "所有服务器以相同顺序展示相同事务",
  "a new leader has each transaction that was ever shown": "新领导者拥有曾展示过的每个事务",
  "no two candidates lead at one moment, each by its own deadline": "按各自的期限，同一时刻没有两个候选者领导",
  "each leader has a higher token than the one before": "每个领导者的令牌都比前一个大",
  "each write to the resource rests on the one before": "对资源的每次写入都基于前一次写入",
  "Raft: terms, votes of a majority, leases": "Raft：任期、多数票、租约",
  "Bully: the highest id that is alive": "Bully：存活者中编号最大的",
  "Ring (Chang and Roberts): the highest id that comes around": "环（Chang-Roberts）：绕回来的最大编号",
  "Lowest id: the first that is alive": "最小编号：存活者中的第一个",
  "Zab: fast leader election and a replicated log, as in ZooKeeper": "Zab：快速领导者选举与复制日志，同 ZooKeeper",
  "Lease on a store, with fencing tokens": "存储上的租约，带栅栏令牌",
  "Lease on a store, without fencing": "存储上的租约，无栅栏",
};

let language = "en";

export function setLanguage(name) { language = name in texts ? name : "en"; }
export function currentLanguage() { return language; }

// say returns what a key is called in the language of the page.
export function say(key) { return texts[language][key] ?? texts.en[key] ?? key; }

// translate returns a sentence of the machines in the language of the page.
export function translate(sentence) { return language === "zh" ? said[sentence] ?? sentence : sentence; }
