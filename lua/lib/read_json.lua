-- A setting that is JSON, as a table; an empty one if it cannot be read, since that must not stop the queue.
-- gives: read_json
local function read_json(text)
  local decoded, value = pcall(cjson.decode, text or '')
  return decoded and type(value) == 'table' and value or {}
end
