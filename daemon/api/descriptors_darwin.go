package api

const pathOnly = 0
