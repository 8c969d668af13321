"use strict";(()=>{document.documentElement.classList.remove("starting");})();
