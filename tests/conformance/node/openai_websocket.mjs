// OpenAIRealtimeWebSocket of `openai`: the WebSocket of browsers, the key in a subprotocol.

import OpenAI from 'openai';
import { OpenAIRealtimeWebSocket } from 'openai/realtime/websocket';

import { job } from './common.mjs';
import { GA, talk } from './openai_talk.mjs';

const client = new OpenAI({ baseURL: `${job.url}/v1`, apiKey: 'none' });
await talk(new OpenAIRealtimeWebSocket({ model: job.model }, client), GA);
