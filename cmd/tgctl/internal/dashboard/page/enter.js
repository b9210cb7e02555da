"use strict";
// The key stays in this tab: unlike a cookie, what a page stores is not shared with other ports.
sessionStorage.setItem("key", document.querySelector("meta[name=key]").content);
location.replace("/");
