// A page opened from disk may not start a worker, and the search runs in one: a hidden frame does its work instead. It
// shares the page's thread, so it reads the index of all pages only when somebody goes to the search field.
if (location.protocol === "file:") {
  const wanted = new Promise(resolve => {
    document.addEventListener("focusin", event => event.target.matches(".md-search__input") && resolve())
  })

  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.url = url
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inside = this.frame.contentDocument
      inside.open()
      inside.write("<script>postMessage = data => parent.postMessage(data, '*')</scr" + "ipt>")
      inside.close()
      window.addEventListener("message", event => {
        if (event.source === this.frame.contentWindow) {
          this.dispatchEvent(new MessageEvent("message", { data: event.data }))
        }
      })
      this.ready = wanted.then(() => new Promise((resolve, reject) => {
        const script = inside.createElement("script")
        script.src = url
        script.onload = resolve
        script.onerror = () => reject(new Error(`cannot load ${url}`))
        inside.body.appendChild(script)
      }))
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
