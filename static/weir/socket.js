// The WebSocket of live updates: connects, reconnects, pauses. Each message of the server is an event `weir:message` of the document, or `weir:tail` for
// that of a live tail, each connection an event `weir:connected`, its end `weir:disconnected`.
(() => {
  "use strict";
  const weir = (window.weir ??= {});
  const RETRY_MS = [250, 500, 1000, 2000, 4000, 8000]; // between connection attempts; a restart of the web process takes one or two seconds
  const SIGNED_OUT = 4401; // close code of the server
  let socket = null, attempts = 0, paused = false;
  let disconnectedAt = null; // ms; null while connected and while paused

  const showState = (state, text) => {
    const button = document.getElementById("live");
    button.className = `live ${state}`;
    button.querySelector("span").textContent = text;
    button.setAttribute("aria-pressed", String(paused));
  };

  const connect = () => {
    if (paused) return;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    socket = new WebSocket(`${scheme}://${location.host}/ws/live`);
    socket.onopen = () => {
      attempts = 0;
      disconnectedAt = null;
      showState("on", gettext("connected"));
      document.dispatchEvent(new CustomEvent("weir:connected"));
    };
    socket.onmessage = (event) => {
      const message = JSON.parse(event.data);
      document.dispatchEvent(message.tail ? new CustomEvent("weir:tail", { detail: message.tail }) : new CustomEvent("weir:message", { detail: message }));
    };
    socket.onclose = (event) => {
      socket = null;
      document.dispatchEvent(new CustomEvent("weir:disconnected"));
      if (event.code === SIGNED_OUT) return location.reload();
      if (paused) return;
      disconnectedAt ??= performance.now();
      showState("cut", gettext("reconnecting"));
      setTimeout(connect, RETRY_MS[Math.min(attempts++, RETRY_MS.length - 1)] * (0.75 + Math.random() / 2));
    };
  };

  const togglePause = () => {
    paused = !paused;
    if (paused) {
      disconnectedAt = null;
      socket?.close();
      showState("", gettext("paused"));
    } else {
      showState("", gettext("connecting"));
      connect();
    }
  };

  weir.connection = {
    send: (message) => {
      if (socket?.readyState === WebSocket.OPEN && !paused) socket.send(JSON.stringify(message));
    },
    isOpen: () => socket?.readyState === WebSocket.OPEN && !paused,
    isPaused: () => paused,
    disconnectedMs: () => (disconnectedAt === null ? 0 : performance.now() - disconnectedAt),
  };

  document.addEventListener("DOMContentLoaded", () => {
    connect();
    document.getElementById("live").addEventListener("click", togglePause);
  });
})();
