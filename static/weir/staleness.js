// The age of the data in the top bar, and the banner over stale data. Stale metrics look like current ones: the banner says that they are stale and
// why. The age grows while no message arrives.
(() => {
  "use strict";
  const weir = (window.weir ??= {});
  const STALE_S = 15, LOST_S = 60; // ages of the data: amber with a banner, red
  const DISCONNECTED_S = 4; // without a connection before the banner appears: longer than a restart of the web process
  let age_s = null, receivedAt = performance.now(); // of the data, when the last message arrived; null: no data yet
  let zookeeperAway = false, samplesCurrent = false;

  const ageNow = () => (age_s === null ? null : age_s + (performance.now() - receivedAt) / 1000);

  const ageText = (seconds) => {
    if (seconds === null) return gettext("never");
    const amount = (text, value) => interpolate(text, { count: Math.floor(value) }, true);
    if (seconds < 120) return amount(gettext("%(count)s s"), seconds);
    return seconds < 7200 ? amount(gettext("%(count)s min"), seconds / 60) : amount(gettext("%(count)s h"), seconds / 3600);
  };

  // `healthOld`: the health in the top bar is stale, too.
  const warning = (seconds) => {
    const stale = seconds !== null && seconds > STALE_S;
    const text = ageText(seconds);
    const old = interpolate(gettext("The data on this page is %(age)s old."), { age: text }, true);
    const withAge = (cause) => ({ text: seconds === null ? cause : `${cause} ${old}`, healthOld: true });
    if (weir.connection.isPaused()) return stale ? withAge(gettext("Live updates are paused.")) : null;
    if (weir.connection.disconnectedMs() > DISCONNECTED_S * 1000) return withAge(gettext("The console does not respond. Reconnecting."));
    if (!stale) return null;
    if (!zookeeperAway) return withAge(gettext("The cluster monitor does not report."));
    const away = samplesCurrent
      ? gettext("ZooKeeper does not respond: leaders, replicas and topics are %(age)s old; offsets and lag are current.")
      : gettext("ZooKeeper does not respond: leaders, replicas and topics are %(age)s old.");
    return { text: interpolate(away, { age: text }, true), healthOld: false };
  };

  const show = () => {
    const seconds = ageNow();
    const lost = seconds !== null && seconds > LOST_S;
    const shown = document.getElementById("age");
    shown.textContent = ageText(seconds);
    shown.className = seconds === null || lost ? "lost" : seconds > STALE_S ? "old" : "";

    const found = warning(seconds);
    const banner = document.getElementById("stale");
    banner.hidden = !found;
    banner.textContent = found?.text ?? "";
    banner.classList.toggle("lost", lost);
    if (found?.healthOld) document.documentElement.dataset.old = "1";
    else delete document.documentElement.dataset.old;
  };

  document.addEventListener("weir:message", ({ detail: message }) => {
    receivedAt = performance.now();
    if (message.reload) return;
    age_s = message.age_s;
    zookeeperAway = message.zookeeper_away;
    samplesCurrent = message.samples_current;
  });
  document.addEventListener("DOMContentLoaded", () => {
    const shown = document.getElementById("age");
    age_s = shown.dataset.age === "" ? null : Number(shown.dataset.age);
    show();
    setInterval(show, 1000);
  });
})();
