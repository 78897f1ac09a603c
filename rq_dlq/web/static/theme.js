// Before anything is drawn: the theme that was chosen here; without one the system says.
const theme = localStorage.getItem("rq_dlq.theme");
if (theme) document.documentElement.dataset.theme = theme;
document.documentElement.classList.add("js");
