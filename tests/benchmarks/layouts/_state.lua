-- A state: live (+|-)token due deliveries charged nacked lapsed released redriven delay; due -: its birth.
-- Padded beyond 64 bytes, since Redis searches a hash of up to 512 shorter values from end to end.
local FIRST = ' 1 0 0 0 0 0 0' .. (' '):rep(32) -- the counts of a first delivery

-- Delivered once more, to the token.
local function delivered(text, token)
  local due, deliveries, rest = text:match('^live %S+ (%S+) (%d+) (.*)$')
  return 'live +' .. token .. ' ' .. due .. ' ' .. deliveries + 1 .. ' ' .. rest
end

-- Lapsed: charged. Returns the state, the token that held it, the due time or nil.
local function lapsed(text)
  local token, due, deliveries, charged, nacked, lapses, rest =
    text:match('^live .(%S+) (%S+) (%d+) (%d+) (%d+) (%d+) (.*)$')
  local counts = deliveries .. ' ' .. charged + 1 .. ' ' .. nacked .. ' ' .. lapses + 1 .. ' ' .. rest
  return 'live -' .. token .. ' ' .. due .. ' ' .. counts, token, tonumber(due)
end
