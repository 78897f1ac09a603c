// Before anything is drawn, set the theme that the user chose; without one, the theme of the system applies.
const theme = localStorage.getItem("rq_dlq.theme");
if (theme) document.documentElement.dataset.theme = theme;
document.documentElement.classList.add("js");
