/* Full-text search for pages that are opened as files.

   The search runs in a worker, which browsers refuse to start from file:// addresses. There, the same script runs in a
   hidden frame instead. Pages from a server keep the browser's workers. Its file name tells Material's offline plugin
   not to load a shim of this name from another server. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      this.scope = new Promise((resolve) => {
        frame.addEventListener("load", () => {
          const scope = frame.contentWindow;
          // The worker's script answers with postMessage(data).
          scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = scope.document.createElement("script");
          script.src = url;
          script.addEventListener("load", () => resolve(scope));
          scope.document.head.append(script);
        });
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.scope.then((scope) => scope.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
