// The texts of the page, in English and in Simplified Chinese.

const texts = {
  en: {
    skip: "Skip to content", parts: "sections", theme: "Theme", ensemble: "Ensemble", elections: "Elections", tree: "Tree", sessions: "Sessions", log: "Log", lab: "Laboratory",
    live: "live", waiting: "connecting", lost: "no connection to the dashboard", notours: "this answer is not from the dashboard: reload the page, and log in if there is a login", at: "at",
    leader: "leader", follower: "follower", observer: "observer", standalone: "standalone", "read-only": "read-only", silent: "no answer", "not serving": "no leader",
    epoch: "Epoch", zxid: "Zxid", lag: "Lag", insync: "In sync", clients: "Clients", watches: "Watches", queued: "Waiting requests", znodes: "Znodes", version: "Version", sync: "Disk sync",
    reads: "Reads per second", writes: "Writes per second", readms: "Read time, 99 %", writems: "Write time, 99 %", sincestart: "since start",
    problems: "Not seen", changesseen: "What has changed", nochange: "Nothing has changed since this page was opened.", becomes: "is", was: "was", epochis: "the epoch is",
    votes: "Elections of the servers, with their votes", votesfor: "Votes for", round: "Round", state: "State", leaderis: "the leader is server", undecided: "no leader yet", looking: "looking", following: "following", leading: "leading", observing: "observing",
    toppaths: "Busiest paths, by first name", bytessecond: "Bytes per second", limits: "Limits hit since this page was opened", limit: "Limit", times: "Times",
    busiest: "Busiest clients", session: "Session", client: "Client", server: "Server", persecond: "Requests/s", requests: "Requests", ms: "ms", last: "Last operation", since: "Since",
    timeout: "Timeout", ephemerals: "Ephemerals", filter: "Filter", none: "none", more: "more", refresh: "Refresh", whowatches: "Who watches",
    election: "Election", token: "Token", waiters: "Waiting", nobody: "nobody", history: "History", resign: "Resign", transfer: "Transfer", until: "Until", lasted: "Lasted", reason: "Reason",
    noelections: "There are no elections in this tree.", others: "Elections and locks of other libraries", library: "Library", kind: "Kind", path: "Path", latch: "latch", lock: "lock",
    timeline: "Who led when", overlap: "these two overlap, by the clocks of their candidates", leads: "leads", unconfirmed: "not confirmed",
    children: "Children", of: "of", next: "More", start: "From the start", data: "Data", text: "Text", json: "JSON", hex: "Hex", bytes: "bytes", empty: "no data", nulldata: "null", meta: "Metadata", acl: "ACL",
    owner: "Owner", created: "Created", modified: "Modified", go: "Go", up: "Up", newchild: "New child", edit: "Edit", remove: "Delete", locked: "no permission to read", ephemeral: "ephemeral", notsorted: "in the server's own order",
    thelog: "Transactions", follow: "Live", stop: "Stop", search: "Search the log", op: "Operation", any: "any", from: "The log begins at", partly: "The search stopped after 10 s because the log is long.", nolog: "This dashboard has no log. Those of `conclave serve` and `conclave dev` have one.", lostevents: "transactions came faster than this page could show them:", why: "Its history",
    cancel: "Cancel", yes: "Do it", resignask: "Ask the leader to step down?", transferask: "Ask the leader to hand over?", removeask: "Delete this znode?", editask: "Change the data", newask: "New child of", name: "Name", mode: "Kind", persistent: "persistent", sequential: "sequential", container: "container", to: "To", by: "Leader now",
    who: "Leader", what: "What", actions: "Actions", asked: "The leader was asked.", loading: "loading",
  },
  zh: {
    skip: "跳到内容", parts: "各部分", theme: "主题", ensemble: "集群", elections: "选举", tree: "节点树", sessions: "会话", log: "日志", lab: "实验室",
    live: "实时", waiting: "正在连接", lost: "与仪表板的连接已断开", notours: "此应答并非来自仪表板：请重新加载此页，如有登录请重新登录", at: "于",
    leader: "领导者", follower: "跟随者", observer: "观察者", standalone: "单机", "read-only": "只读", silent: "无应答", "not serving": "没有领导者",
    epoch: "纪元", zxid: "Zxid", lag: "落后", insync: "已同步", clients: "客户端", watches: "监视", queued: "等待的请求", znodes: "Znode 数", version: "版本", sync: "磁盘同步",
    reads: "每秒读", writes: "每秒写", readms: "读延迟 99 %", writems: "写延迟 99 %", sincestart: "自启动以来",
    problems: "未能看到", changesseen: "发生的变化", nochange: "打开此页以来没有变化。", becomes: "现为", was: "曾为", epochis: "纪元为",
    votes: "服务器的选举及其投票", votesfor: "投给", round: "轮次", state: "状态", leaderis: "领导者是服务器", undecided: "尚无领导者", looking: "选举中", following: "跟随", leading: "领导", observing: "观察",
    toppaths: "按负载排列的路径（首个名称）", bytessecond: "每秒字节", limits: "打开此页以来触及的限制", limit: "限制", times: "次数",
    busiest: "按负载排列的客户端", session: "会话", client: "客户端", server: "服务器", persecond: "请求/秒", requests: "请求数", ms: "毫秒", last: "最近操作", since: "自",
    timeout: "超时", ephemerals: "临时节点", filter: "筛选", none: "无", more: "更多", refresh: "刷新", whowatches: "谁在监视",
    election: "选举", token: "令牌", waiters: "等待者", nobody: "无人", history: "历史", resign: "退位", transfer: "移交", until: "至", lasted: "持续", reason: "原因",
    noelections: "此树中没有选举。", others: "其他库的选举与锁", library: "库", kind: "类型", path: "路径", latch: "latch", lock: "锁",
    timeline: "各时段的领导者", overlap: "按候选者的时钟，这两段有重叠", leads: "在任", unconfirmed: "未确认",
    children: "子节点", of: "共", next: "更多", start: "从头开始", data: "数据", text: "文本", json: "JSON", hex: "十六进制", bytes: "字节", empty: "无数据", nulldata: "null", meta: "元数据", acl: "ACL",
    owner: "所有者", created: "创建于", modified: "修改于", go: "前往", up: "上一级", newchild: "新建子节点", edit: "编辑", remove: "删除", locked: "无读取权限", ephemeral: "临时", notsorted: "按服务器自身的顺序",
    thelog: "事务", follow: "实时", stop: "停止", search: "搜索日志", op: "操作", any: "任意", from: "日志始于", partly: "日志很长，搜索在 10 秒后结束。", nolog: "此仪表板没有可读的日志：`conclave serve` 与 `conclave dev` 的仪表板才有。", lostevents: "事务来得太快，此页未能显示的条数：", why: "它的历史",
    cancel: "取消", yes: "执行", resignask: "请求领导者退位？", transferask: "请求领导者移交？", removeask: "删除此 znode？", editask: "修改数据", newask: "新建子节点，位于", name: "名称", mode: "类型", persistent: "持久", sequential: "顺序", container: "容器", to: "移交给", by: "现任领导者",
    who: "领导者", what: "内容", actions: "操作", asked: "已向领导者提出请求。", loading: "正在加载",
  },
};

// kept is what this browser keeps for the page. It may keep nothing.
export function kept(key) {
  try { return localStorage.getItem(key); } catch { return null; }
}

export function keep(key, value) {
  try { localStorage.setItem(key, value); } catch { /* it is for this page only, then */ }
}

let language = kept("conclave-language") || (navigator.language.startsWith("zh") ? "zh" : "en");

export function t(key) { return texts[language][key] ?? key; }

export function languageNow() { return language; }

export function switchLanguage() {
  language = language === "en" ? "zh" : "en";
  keep("conclave-language", language);
}

// translate puts the texts into the page's fixed parts.
export function translate() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const e of document.querySelectorAll("[data-text]")) e.textContent = t(e.dataset.text);
  for (const e of document.querySelectorAll("[data-label]")) e.setAttribute("aria-label", t(e.dataset.label));
  const other = document.querySelector("#language");
  other.textContent = language === "en" ? "中文" : "English";
  other.lang = language === "en" ? "zh" : "en";
}
